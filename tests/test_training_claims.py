"""The claims of notebooks 07, 08 and 11 about training hold for ten seeds: the one they use and nine others."""

import contextlib
import io
import re

import pytest
from course import FREE, LESSONS, code_cells, read, tags, without_measured

from attention_course import plots
from attention_helpers.training import loop as training
from attention_helpers.training import small_models
from tools.training import make_data

PAGES = [path for path in LESSONS if path.name.startswith(("07", "08", "11"))]


def claims(printed, captions):
    """What a cell prints and its figure's caption, without numbers after ≈ and without another seed's example."""
    example = re.compile(r"\b[A-J] [0-9?]")
    return [sorted(example.sub("…", without_measured(text)) for text in texts) for texts in (printed, captions)]


def stored(cell):
    """A cell's claims as stored in the notebook."""
    printed = [line for o in cell.outputs if o.output_type == "stream" for line in o.text.splitlines()]
    texts = [o.data.get("text/markdown", "") for o in cell.outputs if o.output_type != "stream"]
    return claims(printed, [text.removeprefix("*Figure:* ") for text in texts if text.startswith("*Figure:* ")])


def differing(path, seed, monkeypatch):
    """Triples of a cell, what it claims with another seed, and what is stored, where the two differ."""
    captions, names, differ = [], {}, []
    monkeypatch.setattr(plots, "show_figure", lambda figure, caption: captions.append(f"{caption}"))
    for cell in code_cells(read(path)):
        captions.clear()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            source = cell.source.replace("torch.manual_seed(0)", f"torch.manual_seed({seed})")
            exec(compile(source, cell.id, "exec"), names)
        said = claims(printed.getvalue().splitlines(), captions)
        if FREE not in tags(cell) and said != stored(cell):
            differ.append((cell.id, said, stored(cell)))
    return differ


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name[:2])
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_claims_hold(path, seed, monkeypatch, tmp_path):
    start = training.Training.__init__

    def seeded(self, model, task, learning_rate=1e-2, seed=seed, keep=True):
        start(self, model, task, learning_rate, seed, keep)

    if path.name.startswith("11"):  # it loads a stored model
        monkeypatch.setattr(small_models, "FILE", tmp_path / "trained.npz")
        make_data.trained_models(small_models.FILE, names=["rotary"], seed=seed)
    monkeypatch.setattr(training.Training, "__init__", seeded)
    assert differing(path, seed, monkeypatch) == []
