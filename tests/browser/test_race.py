"""A slider is moved while a cell draws: neither disturbs the other, whichever thread the slider's callbacks run on."""

import itertools

import nbformat
import pytest
from explorer import LiveExplorer
from kernel import Kernel

from tools.notebooks.lab import Lab

FIGURES = 25
SET_UP = f"""
import hashlib, io, threading
import torch
from matplotlib import pyplot as plt
from attention_helpers import load_sentence
from attention_course.explorers import ScoresExplorer


runs, busy = [], False
pictures = []  # of each of the explorer's: was the cell at work, and was it drawn on the thread of the cells?

def draw():
    global busy
    torch.manual_seed(123)
    busy, hashes, numbers = True, [], []
    for _ in range({FIGURES}):
        table = torch.rand(4, 4)
        plt.figure(figsize=(3, 3))
        plt.imshow(table)
        for i in range(4):
            plt.text(i, i, f"{{table[i, i]:.2f}}")
        plt.title("weights")
        png = io.BytesIO()
        plt.savefig(png, format="png")
        plt.close()
        hashes.append(hashlib.sha256(png.getvalue()).hexdigest())
        numbers.append(table.sum().item())
    busy = False
    return hashes, numbers
"""
EXPLORER = """
explorer = ScoresExplorer(load_sentence("journey"))
on_main = lambda: threading.current_thread() is threading.main_thread()
explorer.view.observe(lambda change: pictures.append((busy, on_main())), names="value")
explorer
"""
DRAWN_AGAIN = """[fresh := ScoresExplorer(load_sentence("journey")), fresh.set(**explorer.values),
    fresh.svg == explorer.svg][-1]"""
CELLS = [SET_UP, EXPLORER, "runs.append(draw())"]


@pytest.fixture
def opened(browser, served_bare):
    """The page of a notebook that has run once, quietly, and its explorer."""
    page = browser.new_page(viewport={"width": 1400, "height": 1400})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, served_bare.folder / "race.ipynb")
    lab = Lab(page, served_bare.address)
    lab.open("race.ipynb")
    kernel = Kernel(served_bare, "race.ipynb")
    lab.run_all(len(CELLS))
    yield lab, LiveExplorer(page, kernel)
    kernel.stop()
    page.close()


def move_while_last_cell_runs(lab, explorer):
    """Run the last cell again, and step through the sliders until the kernel has answered."""
    lab.executed, sliders, steps = 0, explorer.sliders(), itertools.count()
    lab.page.locator(".jp-CodeCell .jp-InputArea-editor").last.click()
    lab.page.keyboard.press("Control+Enter")

    def answered():
        step_through(explorer, sliders, next(steps))
        return lab.executed

    lab.wait_until(answered, "the cell did not end")


def step_through(explorer, sliders, step):
    """Move one slider after the other, five times down, five times up."""
    explorer.focus(sliders[step % len(sliders)])
    explorer.page.keyboard.press("ArrowLeft" if step % 10 < 5 else "ArrowRight")


def test_slider_and_cell_do_not_disturb_each_other(opened):
    """In a Lab without the course's settings the slider's pictures come between the cell's, on a second thread."""
    lab, explorer = opened
    for step in range(len(explorer.names)):  # ipykernel takes a widget's first answer on the thread that made it
        step_through(explorer, explorer.sliders(), step)
        explorer.settle()
    between = f"pictures[{explorer.kernel.ask('len(pictures)')}:].count((True, False))"
    for _ in range(10):  # a cell may end before enough moves came through
        move_while_last_cell_runs(lab, explorer)
        explorer.settle()
        if explorer.kernel.ask(between) >= 10:
            break
    assert explorer.kernel.ask(between) >= 10
    (quiet, numbers), *others = explorer.kernel.ask("runs")
    assert len(set(quiet)) == FIGURES
    for disturbed, same_numbers in others:
        assert [n for n in range(FIGURES) if disturbed[n] != quiet[n]] == [], "corrupted pictures"
        assert same_numbers == numbers
    assert explorer.kernel.ask(DRAWN_AGAIN) is True
    assert lab.errors == []
