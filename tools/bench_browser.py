"""From a key press on a slider to new pixels, in a real JupyterLab in Chromium.

Nobody watches while the page measures: playwright opens notebooks and starts the clock, but a browser that reports
every message to it is up to twice as slow, so it lets go, and comes back for the times.
"""

import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import sync_playwright
from refresh_notebooks import METADATA

sys.path.append(str(Path(__file__).parent.parent / "tests" / "browser"))
import lab

BLOCK = 15  # moves in one page before the next takes its turn
SETTLE = 1.5  # seconds until playwright has let go
PAUSE = 0.06  # seconds between moves, in which the kernel's last messages arrive: a person is slower still
SEED = ".widget-slider:has(.widget-label:text-is('seed')) .noUi-handle"
IMAGE = '.jp-OutputArea-output img[src^="data:image/png"]'

# The clock runs from the key until the frame that shows an image with another source, decoded.
MEASURE = """([selector, moves, settle, pause]) => {
    const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    const changed = (source) => new Promise((resolve) => {
        const observer = new MutationObserver(() => {
            const image = document.querySelector(selector);
            if (!image || image.src === source) return;
            observer.disconnect();
            resolve(image);
        });
        observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["src"] });
    });
    const move = async () => {
        const next = changed(document.querySelector(selector).src);
        const start = performance.now();
        const key = { key: "ArrowRight", bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", key));
        await (await next).decode();
        await new Promise(requestAnimationFrame);
        return performance.now() - start;
    };
    window.measured = wait(settle).then(async () => {
        const times = [];
        while (times.length < moves) { times.push(await move()); await wait(pause); }
        return times;
    });
}"""


def write_notebook(path, way):
    """One cell that shows the explorer which bench_moves makes for `way`."""
    source = f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport bench_moves\nbench_moves.{way}();"
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(metadata=METADATA, cells=cells), path)


@contextmanager
def chromium(density):
    """A browser of its own on a screen of this pixel density; yields the address by which playwright finds it."""
    address = f"http://127.0.0.1:{lab.free_port()}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [f"--remote-debugging-port={address.rpartition(':')[2]}", f"--user-data-dir={profile}"]
        flags += [f"--force-device-scale-factor={density}", "--window-size=1400,1200"]
        process = subprocess.Popen([lab.CHROMIUM, *lab.FLAGS, *flags], stderr=subprocess.DEVNULL)
        try:
            wait_until_up(f"{address}/json/version")
            yield address
        finally:
            process.terminate()
            process.wait(timeout=20)


def wait_until_up(address, seconds=30):
    for _ in range(10 * seconds):
        try:
            urllib.request.urlopen(address, timeout=5)
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"Chromium did not answer within {seconds} s")


@contextmanager
def attached(playwright, browser):
    """The browser's page, for as long as playwright holds on to it."""
    connection = playwright.chromium.connect_over_cdp(browser)
    yield connection.contexts[0].pages[0]
    connection.close()  # the browser stays


def measure(playwright, browser, moves):
    """Let the page make some moves by itself; return the milliseconds of each."""
    with attached(playwright, browser) as page:
        page.bring_to_front()
        page.locator(SEED).focus()
        page.evaluate(MEASURE, [IMAGE, moves, SETTLE, PAUSE])
    time.sleep(SETTLE + moves * (PAUSE + 0.1))
    with attached(playwright, browser) as page:
        return page.evaluate("measured")


def keypress_times(moves, names):
    """Milliseconds of each move; `names` gives each result a way of bench_moves and a pixel density."""
    if not lab.CHROMIUM:
        sys.exit("The browser's share needs Chromium: install it (apt install chromium), or leave out: --skip browser")
    times = {name: [] for name in names}
    with ExitStack() as stack:
        root, scratch = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        server = stack.enter_context(lab.server(root, scratch))
        playwright = stack.enter_context(sync_playwright())
        browsers = {name: stack.enter_context(chromium(density)) for name, (_, density) in names.items()}
        for name, (way, _) in names.items():
            write_notebook(Path(root) / f"{name}.ipynb", way)
            with attached(playwright, browsers[name]) as page:
                view = lab.Lab(page, server)
                view.open(f"{name}.ipynb")
                view.run_all(1)
                page.wait_for_selector(IMAGE)
        for start in range(0, moves, BLOCK):
            for name, browser in browsers.items():
                times[name] += measure(playwright, browser, min(BLOCK, moves - start))
    return times
