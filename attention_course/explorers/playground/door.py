"""The playground's door: a stored picture that's there at once, while PyTorch loads behind it."""

import contextvars
import html
import threading

import ipywidgets as widgets

from attention_helpers._data import data_file

from .page import STYLE

# What the explorer shows first, as a picture and as a live page has it, drawn by tools/notebooks/first_picture.py
PICTURE, PAGE = data_file("playground.svg"), data_file("playground.html")
LOADING = '<p role="status" class="attention-loading">Loading PyTorch…</p>'
FAILED = '<p role="status" class="attention-loading">⚠ The playground could not be loaded: {}</p>'


class Playground(widgets.VBox):
    """Train one attention layer and watch it: its first picture from a file, then a PlaygroundExplorer.

    All that a PlaygroundExplorer has, this has too: set, run, play, pause, restart, values, arrays and so on. Code that
    uses them waits until it's loaded.
    Errors: RuntimeError, from the cause, if it could not be loaded; else those of PlaygroundExplorer.
    """

    def __init__(self):
        self._explorer, self._error = None, None
        super().__init__([widgets.HTML(STYLE + LOADING), widgets.HTML(PAGE.read_text(encoding="utf-8"))])
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
