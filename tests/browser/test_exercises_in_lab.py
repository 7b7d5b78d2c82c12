"""An exercise as a learner does it: type a wrong answer and see what is said, type a right one and see it pass."""

import course
import pytest
from visit import SCREENSHOTS

FIRST_LESSON = [path for path in course.LESSONS if path.name.startswith("01")]
ANSWER = """def all_contexts(inputs):
    return torch.softmax(inputs @ inputs.T, dim={dim}) @ inputs


practice.contexts_at_once.check(all_contexts)"""


@pytest.mark.parametrize("notebook", FIRST_LESSON, indirect=True, ids=lambda path: path.stem)
def test_a_wrong_answer_is_named_and_a_right_one_passes(notebook):
    with notebook.all_in_view():
        answer_twice(notebook, notebook.page)


def answer_twice(notebook, page):
    cell = page.locator(".jp-CodeCell", has_text="practice.contexts_at_once.check(all_contexts)")
    said = cell.locator(".jp-OutputArea-output")
    assert "Not attempted yet" in said.inner_text()
    answer(page, cell, ANSWER.format(dim=0))
    said.filter(has_text="You mix by weights whose columns sum to 1").wait_for()
    assert "practice.contexts_at_once.hint()" in said.inner_text()
    page.screenshot(path=SCREENSHOTS / "exercise_wrong.png", clip=around(cell))
    answer(page, cell, ANSWER.format(dim=-1))
    said.filter(has_text="Right.").wait_for()
    page.screenshot(path=SCREENSHOTS / "exercise_right.png", clip=around(cell))
    progress = page.locator(".jp-CodeCell", has_text="practice.progress()")
    assert f"0 of {progress_of(notebook)} done." in progress.inner_text()
    progress.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    progress.locator(".jp-OutputArea-output", has_text=f"1 of {progress_of(notebook)} done.").wait_for()


def answer(page, cell, text):
    """Replace a cell's text by keyboard, and run it."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
    page.keyboard.press("Shift+Enter")


def progress_of(notebook):
    """How many exercises the notebook has."""
    return sum(".check(" in cell.source for cell in notebook.cells if cell.id.startswith("exercise"))


def around(cell):
    box = cell.bounding_box()
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}
