"""Record the README's moving picture: the playground in a real JupyterLab, failing with one head, learning with two.

Usage: python -m tools.notebooks.moving_picture     (needs Chromium; writes notebooks/pictures/playground.webp and .png)

The still picture, the last of the recording, is for those who want no movement.
"""

import io
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from . import lab

ROOT = Path(__file__).parents[2]
START, PICTURES = ROOT / "notebooks" / "00_start_here.ipynb", ROOT / "notebooks" / "pictures"
SIZE, WIDTH = {"width": 1400, "height": 1100}, 860  # of the page; and how wide the recording is, in pixels
ALONE, TOGETHER = 75, 60  # steps of training with one head, then with two
FRAME, LAST = 120, 2500  # milliseconds that each picture stays, and the last


def shot(box):
    """The playground as it stands, at the recording's width."""
    whole = Image.open(io.BytesIO(box.screenshot())).convert("RGB")
    return whole.resize((WIDTH, round(whole.height * WIDTH / whole.width)), Image.Resampling.LANCZOS)


def steps(box):
    return int(box.locator("[role=img] tspan[font-weight=bold]").last.text_content())


def recorded(page, box):
    """Pictures of the playground as it plays: with one head until it has failed, then, after a click, with two."""
    pictures = []
    for until in (ALONE, TOGETHER):
        while steps(box) < until:
            pictures.append(shot(box))
        if until == ALONE:
            box.locator(".attention-remedy").click()
            while steps(box) >= ALONE:  # the click begins anew
                page.wait_for_timeout(20)
    box.locator(".widget-button", has_text="Pause").click()
    page.wait_for_timeout(500)
    return [*pictures, shot(box)]


def main():
    if not lab.CHROMIUM:
        sys.exit("The recording needs Chromium: install it (apt install chromium)")
    with ExitStack() as stack:
        root, scratch = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        shutil.copy(START, root)
        server, playwright = stack.enter_context(lab.server(root, scratch)), stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=lab.CHROMIUM, args=lab.FLAGS)
        page = browser.new_page(viewport=SIZE)
        lab.Lab(page, server.address).open(START.name)
        page.keyboard.press("Shift+Enter")
        page.keyboard.press("Shift+Enter")
        box = page.locator(".jp-OutputArea-output .Playground")
        box.locator("div[role=img]").wait_for()
        first, *others = recorded(page, box)
        browser.close()
    moving = {"save_all": True, "append_images": others, "duration": [FRAME] * len(others) + [LAST], "loop": 0}
    first.save(PICTURES / "playground.webp", quality=55, method=6, **moving)
    others[-1].save(PICTURES / "playground.png", optimize=True)
    print(f"{1 + len(others)} pictures, {(PICTURES / 'playground.webp').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
