"""A learner's path: a wrong answer, its hint, a right one, a kernel restarted, and all is still known."""

import course
import pytest
from conftest import choose, fill
from lab import PATIENCE, Lab
from visit import TALL

from attention_course.exercises import dot_product_scores, record
from tools.notebooks.manifest import HELP

[LESSON] = [path.name for path in course.LESSONS if path.name.startswith("01")]
EXERCISE, COUNT = dot_product_scores.contexts_at_once, len(dot_product_scores.EXERCISES)
ANSWER = """def all_contexts(inputs):
    return torch.softmax(inputs @ inputs.T, dim={dim}) @ inputs


practice.contexts_at_once.check(all_contexts)"""


@pytest.fixture
def opened(browser, served):
    """opened(name) opens a notebook of a workbook that no other test uses, each time in another browser."""
    fill(served.folder / "learner", served.scratch)
    contexts = []

    def opened(name):
        contexts.append(browser.new_context(viewport=TALL))  # Lab renders only what is in view
        lab = Lab(contexts[-1].new_page(), served.address)
        lab.open(f"learner/{name}")
        return lab

    yield opened
    for context in contexts:
        context.close()


def cell_with(lab, text):
    return lab.page.locator(".jp-CodeCell", has_text=text).last


def said_in(cell):
    return cell.locator(".jp-OutputArea-output")


def run(lab, cell, text=None):
    """Click into a cell, replace its text if there is one, and press Shift+Enter."""
    cell.locator(".cm-content").click()
    if text:
        lab.page.keyboard.press("Control+A")
        lab.page.keyboard.insert_text(text)
    executed = lab.executed
    lab.page.keyboard.press("Shift+Enter")
    lab.wait_until(lambda: lab.executed > executed, "the cell was not run")


def try_and_be_told(lab):
    """A wrong answer with its hints, then a right one."""
    cell = cell_with(lab, "practice.contexts_at_once.check(all_contexts)")
    said = said_in(cell)
    run(lab, cell, ANSWER.format(dim="-1) @ inputs + len(inputs"))  # a mistake that's in no list
    said.filter(has_text=f"{EXERCISE.name}.inputs()").wait_for()
    run(lab, cell, ANSWER.format(dim=0))
    said.filter(has_text=EXERCISE.known_mistakes[0].reply).wait_for()  # averages by columns
    folds = said.locator("details")
    assert folds.evaluate_all("folds => folds.map(fold => fold.open)") == [False] * len(EXERCISE.hints)
    folds.first.locator("summary").first.click()
    folds.first.locator("p", has_text=EXERCISE.hints[0].replace("`", "")).first.wait_for(state="visible")
    run(lab, cell, ANSWER.format(dim=-1))
    said.filter(has_text="Right.").wait_for()
    assert folds.count() == 0


def restart(lab):
    lab.kernel_answers = False
    choose(lab.page, "Kernel", "kernelmenu:restart")
    lab.page.locator(".jp-Dialog").wait_for(state="detached")
    lab.wait_until(lambda: lab.kernel_answers, "the new kernel did not answer")


def test_progress_outlives_the_kernel_and_the_browser(opened, served):
    lab = opened(LESSON)
    run(lab, cell_with(lab, "import dot_product_scores as practice"))
    progress = cell_with(lab, "practice.progress()")
    run(lab, progress)
    said_in(progress).filter(has_text=f"0 of {COUNT} done.").wait_for()
    try_and_be_told(lab)
    restart(lab)
    run(lab, cell_with(lab, "import dot_product_scores as practice"))
    run(lab, progress)
    said_in(progress).filter(has_text=f"1 of {COUNT} done.").wait_for()
    assert f"✓ {EXERCISE.title}" in said_in(progress).inner_text()
    lab.page.keyboard.press("Control+s")
    lab.page.locator(".jp-mod-dirty").first.wait_for(state="detached")
    record_file = served.folder / "learner" / record.FILE
    assert record_file.read_text(encoding="utf-8").split()[0] == EXERCISE.name

    page = opened(HELP.name)
    versions = cell_with(page, "import_module(name)")
    run(page, versions)
    said_in(versions).filter(has_text="attention_helpers").wait_for(timeout=1000 * PATIENCE)
    assert "fails" not in said_in(versions).inner_text()
    overview = cell_with(page, "exercises.progress()")
    run(page, overview)
    said_in(overview).filter(has_text=f"1 of {COUNT}").wait_for(timeout=1000 * PATIENCE)
