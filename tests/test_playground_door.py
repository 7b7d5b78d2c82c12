"""The playground is there before PyTorch is, then passes on to its explorer, and its cell can be run again."""

import re
import subprocess
import sys
import threading

import pytest

from attention_course.explorers import Playground
from attention_course.explorers.playground import door
from attention_course.explorers.playground import explorer as playground
from attention_course.explorers.playground.explorer import PlaygroundExplorer
from tools.notebooks.first_picture import drawn

PAGE, PICTURE = (file.read_text(encoding="utf-8") for file in (door.PAGE, door.PICTURE))


@pytest.fixture
def slow(monkeypatch):
    """Loading waits until the test calls this, then makes what it gives."""
    go, make = threading.Event(), [PlaygroundExplorer]

    def loaded():
        assert go.wait(60)
        return make[0]()

    def let(what=PlaygroundExplorer):
        make[0] = what
        go.set()

    monkeypatch.setattr(playground, "PlaygroundExplorer", loaded)
    yield let
    go.set()


def seen(made):
    """The HTML that it shows."""
    return " ".join(getattr(child, "value", "") for child in made.children)


def test_at_first_there_is_a_stored_picture_and_then_the_explorer(slow):
    made = Playground()
    assert "Loading PyTorch…" in seen(made)
    assert PAGE in seen(made)
    bundle = made._repr_mimebundle_()
    assert bundle["image/svg+xml"] == PICTURE
    assert "application/vnd.jupyter.widget-view+json" in bundle
    slow()
    made._loader.join()
    assert made.children == made.explorer.children
    assert "Step 0" in re.sub("<[^>]*>", "", made.view.value)
    assert made._repr_mimebundle_()["image/svg+xml"] == PICTURE  # so that a stored notebook stays the same


def test_what_is_asked_of_it_before_it_is_loaded_waits(slow):
    made, answers = Playground(), []
    asking = threading.Thread(target=lambda: answers.append(made.values))
    asking.start()
    asking.join(0.05)
    assert answers == []
    assert not hasattr(made, "_repr_html_")  # IPython asks for that, and mustn't wait
    slow()
    asking.join()
    made.set(num_heads=2, d_out=8)
    made.run(2)
    assert answers[0]["num_heads"] == 1
    assert (made.arrays.step, made.arrays.weights.shape[0]) == (2, 2)
    with pytest.raises(AttributeError, match="no_such_name"):
        made.no_such_name  # noqa: B018


def test_an_error_while_loading_is_shown_in_place_and_raised_where_it_is_used(slow):
    def broken():
        raise ImportError("torch <is> missing")

    made = Playground()
    slow(broken)
    made._loader.join()
    assert "⚠ The playground could not be loaded: ImportError: torch &lt;is&gt; missing" in seen(made)
    assert PAGE in seen(made)
    with pytest.raises(RuntimeError, match="could not be loaded: torch <is> missing") as caught:
        made.play()
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_process_can_end_while_it_loads():
    code = "from attention_course.explorers import Playground; Playground()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_is_stored_is_what_the_explorer_shows_first():
    """`python -m tools.notebooks.first_picture` draws it again. Another CPU may end with other last digits."""
    number = re.compile(r"-?\d+\.?\d*")
    for stored, now in zip((PAGE, PICTURE), drawn(), strict=True):
        assert number.sub("", stored) == number.sub("", now)
        both = zip(number.findall(stored), number.findall(now), strict=True)
        assert max(abs(float(a) - float(b)) for a, b in both) < 3
        assert "Untrained: every answer is a guess." in stored
        assert stored.count("✗") == 2
