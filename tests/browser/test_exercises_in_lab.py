"""A learner's path: a wrong answer, its hint, a right one, a kernel restarted, and all is still known."""

import course
from conftest import fill
from lab import TALL, Lab

from attention_course.exercises import dot_product_scores, record
from tools.notebooks.manifest import HELP

[LESSON] = [path.name for path in course.LESSONS if path.name.startswith("01")]
EXERCISE, COUNT = dot_product_scores.contexts_at_once, len(dot_product_scores.EXERCISES)
IMPORT, PROGRESS = "import dot_product_scores as practice", "practice.progress()"
CHECK = "practice.contexts_at_once.check(all_contexts)"
ANSWER = f"""def all_contexts(inputs):
    return torch.softmax(inputs @ inputs.T, dim={{dim}}) @ inputs


{CHECK}"""


def run(lab, code, said="", answer=None):
    """Run the cell that ends with this code, with another text if it's an answer; return what says what's awaited."""
    cell = lab.page.locator(".jp-CodeCell", has_text=code).last
    cell.locator(".cm-content").click()
    if answer:
        lab.page.keyboard.press("Control+A")
        lab.page.keyboard.insert_text(answer)
    executed = lab.executed
    lab.page.keyboard.press("Shift+Enter")
    lab.wait_until(lambda: lab.executed > executed, f"{code} was not run")
    shown = cell.locator(".jp-OutputArea-output").filter(has_text=said)
    if said:
        shown.wait_for()
    return shown


def opened(browser, served, name):
    lab = Lab(browser, served, TALL)  # Lab renders only what is in view
    lab.open(f"learner/{name}")
    return lab


def test_progress_outlives_the_kernel_and_the_browser(browser, served):
    fill(served.folder / "learner", served.scratch)  # no other test uses it
    lab = opened(browser, served, LESSON)
    run(lab, IMPORT)
    run(lab, PROGRESS, f"0 of {COUNT} done.")
    run(lab, CHECK, f"{EXERCISE.name}.inputs()", ANSWER.format(dim="-1) @ inputs + len(inputs"))  # in no list
    folds = run(lab, CHECK, "Columns sum to 1 instead of rows", ANSWER.format(dim=0)).locator("details")
    assert folds.evaluate_all("folds => folds.map(fold => fold.open)") == [False] * len(EXERCISE.hints)
    folds.first.locator("summary").first.click()
    folds.first.locator("p", has_text=next(iter(EXERCISE.hints.values())).replace("`", "")).first.wait_for(
        state="visible"
    )
    assert run(lab, CHECK, "Right.", ANSWER.format(dim=-1)).locator("details").count() == 0
    lab.restart()
    run(lab, IMPORT)
    assert f"✓ {EXERCISE.title}" in run(lab, PROGRESS, f"1 of {COUNT} done.").inner_text()
    lab.save()
    assert (served.folder / "learner" / record.FILE).read_text(encoding="utf-8").split()[0] == EXERCISE.name
    lab.page.close()
    help_page = opened(browser, served, HELP.name)
    run(help_page, "exercises.progress()", f"1 of {COUNT}")
    help_page.page.close()
