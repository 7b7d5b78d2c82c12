"""From a key press on a slider to a new picture, in a real JupyterLab in Chromium.

Two times of each move, both from the key press: until the page has the new picture, its image loaded, and until the
browser reports the frame that shows it (W3C Element Timing). The second waits for the screen's next frames, 17 ms each.

Nobody watches while the page measures: playwright opens notebooks and starts the clock, but a browser that reports
every message to it is up to twice as slow, so it lets go, and comes back for the times. One browser at a time.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import nbformat
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

from ..notebooks import lab
from ..notebooks.refresh_notebooks import METADATA
from . import bench_moves
from .bench_kernel import imported

ROUNDS = 2  # each notebook is measured so often, in turns with the others
WARM = 5  # moves that are not counted, in each round
SETTLE = 1.5  # seconds until playwright has let go
PAUSE = 0.06  # seconds between moves, in which the kernel's last messages arrive: a person is slower still
SEED = ".widget-slider:has(.widget-label:text-is('seed')) .noUi-handle"
PICTURE = f".jp-OutputArea-output [{bench_moves.MARK}]"  # a new one at each move

MEASURE = """([selector, moves, settle, pause]) => {
    const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    const changed = (old) => new Promise((resolve) => {
        const observer = new MutationObserver(() => {
            const picture = document.querySelector(selector);
            if (!picture || picture === old) return;
            observer.disconnect();
            resolve(loaded(picture));
        });
        observer.observe(document.body, { childList: true, subtree: true });
    });
    const loaded = (picture) => picture.complete || picture.localName === "text"
        || new Promise((resolve) => picture.addEventListener("load", resolve));
    const painted = () => new Promise((resolve) => {
        const observer = new PerformanceObserver((list) => {
            observer.disconnect();
            resolve(list.getEntries().at(-1).renderTime);
        });
        observer.observe({ type: "element" });
    });
    const move = async () => {
        const next = changed(document.querySelector(selector)), frame = painted();
        const start = performance.now();
        const key = { key: "ArrowRight", bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", key));
        await next;
        const done = performance.now();
        return [done - start, await frame - start];
    };
    window.measured = wait(settle).then(async () => {
        const times = [];
        while (times.length < moves) { times.push(await move()); await wait(pause); }
        return times;
    });
}"""


def write_notebook(path, way):
    """One cell that shows the explorer which bench_moves makes for `way`."""
    source = f"{imported('bench_moves')}bench_moves.{way}();"
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(metadata=METADATA, cells=cells), path)


@contextmanager
def chromium(density):
    """A browser of its own on a screen of this pixel density; yields the address by which playwright finds it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--remote-debugging-port=0", f"--user-data-dir={profile}"]  # 0: it takes one, and writes down which
        flags += [f"--force-device-scale-factor={density}", "--window-size=1400,1200"]
        process = subprocess.Popen([lab.CHROMIUM, *lab.FLAGS, *flags], stderr=subprocess.DEVNULL)
        try:
            yield address_of(Path(profile) / "DevToolsActivePort")
        finally:
            process.terminate()
            process.wait(timeout=20)


def address_of(file):
    """Where a browser answers, as soon as it does; the file is the one in which it writes down its port."""
    deadline = time.monotonic() + lab.PATIENCE
    while time.monotonic() < deadline:
        with suppress(OSError, IndexError):  # nothing is written yet; or nobody listens yet
            address = f"http://127.0.0.1:{file.read_text().splitlines()[0]}"
            urllib.request.urlopen(f"{address}/json/version", timeout=lab.PATIENCE)
            return address
        time.sleep(0.1)
    sys.exit(f"Chromium did not answer within {lab.PATIENCE} s")


@contextmanager
def attached(playwright, browser):
    """The browser's page, for as long as playwright holds on to it."""
    connection = connect(playwright, browser)
    yield connection.contexts[0].pages[0]
    connection.close()  # the browser stays


def connect(playwright, browser, tries=6):
    """Connect to a running browser; once in a while Chromium does not answer, and does when it is asked again."""
    for n in range(1, tries):
        try:
            return playwright.chromium.connect_over_cdp(browser, timeout=5000)
        except PlaywrightTimeout:
            print(f"Chromium did not answer, and is asked again: {n} of {tries - 1}", file=sys.stderr)
    return playwright.chromium.connect_over_cdp(browser, timeout=5000)


def measure(playwright, browser, moves):
    """Let the page make some moves by itself; return two times of each, in milliseconds: loaded, painted."""
    with attached(playwright, browser) as page:
        page.bring_to_front()
        page.locator(SEED).focus()
        page.evaluate(MEASURE, [PICTURE, moves, SETTLE, PAUSE])
    time.sleep(SETTLE + moves * (PAUSE + 0.15))
    with attached(playwright, browser) as page:
        return page.evaluate("measured")


def keypress_times(moves, names):
    """Times of `moves` moves; `names` gives each result a way of bench_moves and a screen's pixel density.

    Returns name to milliseconds until the picture is loaded, and `name`_painted to those until it is shown.
    """
    if not lab.CHROMIUM:
        sys.exit("The browser's share needs Chromium: install it (apt install chromium), or leave out: --skip browser")
    times = {name: [] for name in names}
    with ExitStack() as stack:
        root, scratch = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        server = stack.enter_context(lab.server(root, scratch)).address
        playwright = stack.enter_context(sync_playwright())
        for round_number in range(ROUNDS):
            for name, (way, density) in names.items():
                share = moves * (round_number + 1) // ROUNDS - moves * round_number // ROUNDS
                times[name] += one_round(playwright, server, Path(root) / f"{name}.ipynb", way, density, share)
    loaded = {name: [move[0] for move in taken] for name, taken in times.items()}
    return loaded | {f"{name}_painted": [move[1] for move in taken] for name, taken in times.items()}


def one_round(playwright, server, path, way, density, moves):
    """Open the notebook in a browser of its own, and measure; the first moves are not counted."""
    write_notebook(path, way)
    with chromium(density) as browser:
        with attached(playwright, browser) as page:
            view = lab.Lab(page, server)
            view.open(path.name)
            view.run_all(1)
            page.wait_for_selector(PICTURE)
        times = measure(playwright, browser, WARM + moves)
    stop_kernels(server)
    return times[WARM:]


def stop_kernels(server):
    """A kernel that waits costs little, and a measurement must not depend on how many there are."""
    with urllib.request.urlopen(f"{server}/api/kernels?token={lab.TOKEN}") as answer:
        kernels = [kernel["id"] for kernel in json.load(answer)]
    for kernel in kernels:
        request = urllib.request.Request(f"{server}/api/kernels/{kernel}?token={lab.TOKEN}", method="DELETE")
        urllib.request.urlopen(request)
