"""The playground in JupyterLab: a keypress on the start page, a moving picture, and a notebook left in peace."""

import itertools
import os
import shutil

import course
import pytest
from kernel import Kernel
from lab import Lab
from test_explorers_in_lab import ROOM, still

NAME = "start_here_again.ipynb"  # a copy: two pages of one notebook would share its kernel
BOX = ".jp-OutputArea-output .Playground"
# When the picture changed, and to which step; and what each frame had: the playground's height and the picture's top.
WATCH = """() => {
    [window.seen, window.frames] = [[], []];
    const frame = () => {
        const [box, drawn] = ['', ' div[role=img]'].map(kind => document.querySelector('.Playground' + kind));
        const [room, place] = [box, drawn].map(each => each?.getBoundingClientRect());
        if (drawn) window.frames.push([performance.now(), room.height, place.top - room.top]);
        requestAnimationFrame(frame);
    };
    frame();
    new MutationObserver(() => {
        const step = [...document.querySelectorAll('.Playground div[role=img] tspan[font-weight=bold]')].at(-1);
        if (!step || window.seen.at(-1)?.[1] == step.textContent) return;
        window.seen.push([performance.now(), +step.textContent]);
    }).observe(document.body, {subtree: true, childList: true});
}"""


class Page:
    """The copy, open, its playground started by two keys; `drawn` and `moving`: the ms that two pictures took."""

    def __init__(self, browser, served):
        shutil.copy(course.FOLDER / "00_start_here.ipynb", served.folder / NAME)
        self.page = browser.new_page(viewport={"width": 1400, "height": 900})
        self.lab, self.served = Lab(self.page, served.address), served
        self.lab.open(NAME)
        self.kernel = Kernel(served, NAME)
        self.page.evaluate(WATCH)
        self.page.keyboard.press("Shift+Enter")  # of the title
        start = self.page.evaluate("performance.now()")
        self.page.keyboard.press("Shift+Enter")
        self.lab.wait_until(lambda: any(step > 0 for _, step in self.seen()), "no picture moved")
        self.moving = next(when for when, step in self.seen() if step > 0) - start
        self.frames = self.page.evaluate("window.frames")
        self.drawn = self.frames[0][0] - start
        self.box = self.page.locator(BOX)

    def seen(self):
        return self.page.evaluate("window.seen")

    def do(self, *calls):
        self.kernel.ask(f"[{', '.join(calls)}] and None")

    def button(self, name):
        return self.box.locator("button", has_text=name)

    def wait_for(self, expression):
        self.lab.wait_until(lambda: self.kernel.ask(expression), f"{expression} was not true")


@pytest.fixture(scope="module")
def lab(browser, served):
    page = Page(browser, served)
    yield page
    page.kernel.stop()
    page.page.close()


@pytest.fixture
def ground(lab):
    """The page with its playground at rest, in its first state."""
    lab.do("playground.pause()", "playground.set(**playground._first)", "playground.speed.set_trait('value', 0)")
    return lab


def test_two_keys_and_there_is_a_picture_of_step_0_and_then_one_that_moves(lab):
    print(f"drawn after {lab.drawn / 1000:.2f} s, moving after {lab.moving / 1000:.2f} s")
    assert 0 < lab.drawn < lab.moving
    assert lab.seen()[0][1] == 0
    assert os.getloadavg()[0] > os.cpu_count() or (lab.drawn < 4000 and lab.moving < 5000)
    assert len({(height, top) for _, height, top in lab.frames}) == 1  # nothing jumps when it comes to life
    assert lab.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop") == 0
    assert lab.lab.errors == []


def test_at_least_nineteen_pictures_a_second_and_none_after_pause(ground):
    ground.do("playground.set(num_heads=2)", "playground.play()")
    counts = []
    for _ in range(7):
        ground.page.wait_for_timeout(1000)
        counts.append(len(ground.seen()))
    ground.button("Pause").click()
    ground.button("Play").wait_for()
    ground.wait_for("not playground.view.playing")
    most = max(after - before for before, after in itertools.pairwise(counts))
    print(f"{most} pictures a second")
    assert most >= 19 or os.getloadavg()[0] > os.cpu_count()  # then threads wait for their turn


def test_it_stands_still_for_who_wants_less_motion_until_play_is_pressed(ground):
    ground.page.emulate_media(reduced_motion="reduce")
    ground.do("globals().update(before=playground)")
    ground.page.locator(".jp-CodeCell .jp-InputPrompt").first.click()  # its code stays folded
    ground.page.keyboard.press("Control+Enter")
    ground.wait_for("playground is not before")
    ground.box.locator("div[role=img]").wait_for()
    ground.page.wait_for_timeout(1500)
    assert ground.kernel.ask("(playground.view.playing, playground.arrays.step)") == (False, 0)
    ground.button("Play").click()
    ground.wait_for("playground.arrays.step > 0")
    ground.page.emulate_media(reduced_motion="no-preference")


def test_it_fits_below_its_code_in_both_windows_and_nothing_is_cut_off(ground):
    states = (1024, 768, 466, 2, "two questions"), (1400, 900, 620, 4, "next character")
    for width, height, room, heads, task in states:  # the last as before
        ground.do(f"playground.set(num_heads={heads}, task={task!r})", "playground.run(60)")
        ground.page.set_viewport_size({"width": width, "height": height})
        seen = still(ground, ROOM)
        assert seen["height"] <= room
        assert seen["cut"] == []
        assert not seen["scrolls"]
        assert seen["smallest"] >= 11
