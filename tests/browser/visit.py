"""A visit to a notebook of the course: what it shows at first, and after all its cells have run."""

from contextlib import contextmanager, suppress
from functools import cached_property

import course
from explorer import LiveExplorer
from lab import SIZE, TALL, Kernel, Lab
from playwright.sync_api import TimeoutError as PlaywrightTimeout

LAPTOP = {"width": 1024, "height": 24_000}
CUT_OFF = """() => [...document.querySelectorAll('.jp-CodeCell :is(.cm-scroller, .jp-OutputArea-output pre)')].filter(
    it => it.checkVisibility() && it.scrollWidth > it.clientWidth + 1).map(it => it.innerText)"""
# What a cell's text is, the page always knows; innerText is empty where the browser has not rendered the cell yet.
SHOWN = """({prompts, outputs, pictures}) => {
    document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0;
    const cells = [...document.querySelectorAll('.jp-CodeCell')];
    const of = (cell, part) => [...cell.querySelectorAll(part)];
    if (cells.some(cell => of(cell, '.jp-OutputArea-output[data-mime-type$=error]').length)) return true;
    const images = cells.flatMap(cell => of(cell, '.jp-OutputArea-output :is(img, [role=img])'));
    return cells.length == prompts.length
        && images.length >= pictures && images.every(image => image.complete !== false)
        && cells.every((cell, n) => cell.querySelector('.jp-InputPrompt').textContent == prompts[n])
        && cells.every((cell, n) => of(cell, '.jp-OutputArea-output').length >= outputs[n])
        && cells.every(cell => of(cell, '.jp-OutputArea-output').every(
            output => output.querySelector('img, svg')
                || output.textContent.trim() && !output.textContent.includes('Loading widget')));
}"""
LOOK = """() => ({
    bottom: Math.ceil([...document.querySelectorAll('.jp-Cell')].at(-1).getBoundingClientRect().bottom),
    dirty: document.querySelectorAll('.jp-mod-dirty').length > 0,
    said: [...document.querySelectorAll('.jp-OutputArea-output:not(:has(img, svg))')].map(box => box.textContent),
    prompts: [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(prompt => prompt.textContent),
    errors: [...document.querySelectorAll('.jp-OutputArea-output[data-mime-type$=error]')].map(box => box.textContent),
    pictures: [...document.querySelectorAll('.jp-OutputArea-output img')]
        .filter(picture => picture.complete && picture.naturalWidth).map(picture => picture.src),
})"""


class Visit:
    """`first` and `last`: what the page shows before a cell is run, and after all are; `lab`: the page itself."""

    def __init__(self, browser, served, path):
        self.source = course.read(path)
        self.cells = course.code_cells(self.source)
        self.name = path.relative_to(course.FOLDER).as_posix()
        self.copied = course.code_cells(course.read(served.folder / self.name))
        self.stored = stored_pictures(self.copied)
        self.lab, self.served = Lab(browser, served), served
        self.page = self.lab.page

    def __enter__(self):
        self.lab.open(self.name)
        self.kernel = Kernel(self.served, self.name)
        self.first = self.look(self.copied)
        self.lab.run_all(len(self.cells))
        self.last = self.look(self.cells)
        self.page.set_viewport_size(LAPTOP)
        self.page.keyboard.press("Control+b")  # help.ipynb says that it hides the list of files
        self.page.wait_for_timeout(500)  # until Lab has drawn its cells as wide as that
        self.cut_off = self.page.evaluate(CUT_OFF)
        self.page.keyboard.press("Control+b")
        self.page.set_viewport_size(SIZE)
        return self

    def __exit__(self, *error):
        self.kernel.stop()
        self.page.close()

    @contextmanager
    def all_in_view(self):
        """A screen as tall as the page: Lab renders only what is in view."""
        self.page.set_viewport_size(TALL)
        yield
        self.page.set_viewport_size(SIZE)

    def look(self, cells):
        """What the page shows, from top to bottom, as soon as that is what these cells have."""
        expected = {
            "prompts": [prompt(cell) for cell in cells],
            "outputs": [len(cell.outputs) for cell in cells],
            "pictures": len(stored_pictures(cells)),
        }
        with self.all_in_view():
            with suppress(PlaywrightTimeout):  # a test names what lacks
                self.page.wait_for_function(SHOWN, arg=expected, polling=100)
            seen = self.page.evaluate(LOOK)
            assert seen["bottom"] < TALL["height"], f"{self.name} needs a screen of {seen['bottom']} pixels"
        return seen

    @cached_property
    def explorer(self):
        return LiveExplorer(self.page, self.kernel)


def prompt(cell, count=None):
    """What stands beside a cell that was run as the so-manieth, or was not run; a folded one has none."""
    folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
    return "" if folded else f"[{count or cell.execution_count or ' '}]:"


def stored_pictures(cells):
    """The pictures in the notebook's file, as the page writes them: a PNG's code, an SVG's text."""
    outputs = [output.get("data", {}) for cell in cells for output in cell.outputs]
    pngs = [data["image/png"].replace("\n", "") for data in outputs if "image/png" in data]
    return pngs + [data[course.SVG] for data in outputs if course.SVG in data]
