"""The playground's door: a stored picture that's there at once, while PyTorch loads behind it."""

import contextvars
import html
import threading

import ipywidgets as widgets

from ..._data import data_file

PICTURE = data_file("playground.svg")  # drawn by tools/notebooks/first_picture.py
LOADING = '<p role="status">Loading PyTorch…</p>'
FAILED = '<p role="status">⚠ The playground could not be loaded: {}</p>'
# The picture has room at a window of 1024 x 768, and where there's more room it's larger.
STYLE = """<style>.Playground {container-type: inline-size}
.Playground [role=img] {color: var(--jp-content-font-color0, #000) !important}
.Playground [role=img] > rect:first-child {fill: none}
@container (min-width: 750px) {.Playground [role=img] {zoom: 1.25}}
.Playground .attention-headline {min-height: 2.6em}
@container (min-width: 900px) {.Playground [role=img] {zoom: 1.5}
    .Playground .attention-headline {font-size: 20px; min-height: 0}}
.Playground .widget-readout {min-width: 3em}
.Playground .attention-remedy {background: #a84300; color: #fff; font-weight: bold}
.Playground .attention-shown {display: none}</style>"""
# Once it's shown, the page itself presses a button that nobody sees, unless the reader wants less motion.
SHOWN = """<style onload="const press = tries => {
    const button = this.closest('.Playground')?.querySelector('.attention-shown');
    if (!button) return tries && setTimeout(press, 100, tries - 1);
    matchMedia('(prefers-reduced-motion: reduce)').matches || button.click();
}; press(50)"></style>"""


class Playground(widgets.VBox):
    """Train one attention layer and watch it: a stored picture at first, a PlaygroundExplorer once PyTorch is there.

    All that a PlaygroundExplorer has, this has too: set, run, play, pause, restart, values, arrays and so on. Code that
    uses them waits until it's loaded.
    Errors: RuntimeError, from the cause, if it could not be loaded; else those of PlaygroundExplorer.
    """

    def __init__(self):
        self._explorer, self._error = None, None
        super().__init__([widgets.HTML(STYLE + LOADING), widgets.HTML(PICTURE.read_text(encoding="utf-8"))])
        self.add_class("attention-explorer")
        self.add_class("Playground")
        # Not a daemon, because torch mustn't be half imported when the process ends. The context names the cell.
        load = contextvars.copy_context().run
        self._loader = threading.Thread(target=load, args=(self._load,), name="loading the playground")
        self._loader.start()

    def _load(self):
        try:
            from .explorer import PlaygroundExplorer

            self._explorer = PlaygroundExplorer()
        except Exception as error:
            self._error, said = error, html.escape(f"{type(error).__name__}: {error}")
            self.children[0].value = STYLE + FAILED.format(said)
            return
        self.children = self._explorer.children

    @property
    def explorer(self):
        """The PlaygroundExplorer, as soon as it's loaded."""
        self._loader.join()
        if self._error:
            raise RuntimeError(f"the playground could not be loaded: {self._error}") from self._error
        return self._explorer

    def __getattr__(self, name):
        """What a playground itself doesn't have, its explorer has; IPython asks for _repr_html_ and such."""
        if name.startswith("_"):
            raise AttributeError(f"a Playground has no {name}")
        return getattr(self.explorer, name)

    def _repr_mimebundle_(self, **kwargs):
        """The live widget, plus the stored picture and a line of text for places without widgets."""
        return super()._repr_mimebundle_(**kwargs) | {
            "image/svg+xml": PICTURE.read_text(encoding="utf-8"),
            "text/plain": "Playground: run this cell to play with it.",
        }
