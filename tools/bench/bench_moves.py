"""What `make bench` runs inside a kernel: sliders that move an explorer, or the plain way, and their times.

The plain way is ipywidgets' interact with pyplot, on the same data: what the published notebooks would do.
"""

import base64
import time
from io import BytesIO

import ipywidgets as widgets
import matplotlib.pyplot as plt
import torch
from IPython.display import display
from PIL import Image

from attention_helpers import load_sentence
from attention_helpers.explorers import QKVExplorer, SplitExplorer
from attention_helpers.explorers.lesson_02 import attend
from attention_helpers.explorers.multi_head import split_heads

LARGE = {"d_out": 48, "num_heads": 12, "num_tokens": 64}  # 12 heads of 64 x 64
MARK = 'elementtiming="picture"'  # browsers report images and texts that come with it, no other shapes


def watched(explorer_class):
    """The explorer with a mark at its image, or else at its first text, by which a browser tells when it is shown."""

    class Watched(explorer_class):
        def picture(self, arrays):
            rows = super().picture(arrays)
            first = rows[0][0]
            kind = "<image " if "<image " in first.svg else "<text "
            rows[0][0] = first._replace(svg=first.svg.replace(kind, f"{kind}{MARK} ", 1))
            return rows

    return Watched(load_sentence("journey"))


def explorer_6x6():
    """Two 6 x 6 tables with numbers, and bars. Returns the slider that moves them."""
    explorer = watched(QKVExplorer)
    display(explorer)
    return explorer.controls["seed"]


def explorer_12x64():
    explorer = watched(SplitExplorer)
    explorer.set(**LARGE)
    display(explorer)
    return explorer.controls["seed"]


def interact_6x6():
    """One of the two tables alone, with numbers and a colour bar."""
    sentence = load_sentence("journey")

    @torch.no_grad()
    def draw(seed):
        state = attend(sentence.embeddings, "sentence", 2, seed, scaling=True, qkv_bias=False)
        figure, ax = plt.subplots()
        image = ax.imshow(state.weights, vmin=0, vmax=1)
        figure.colorbar(image)
        ax.set_xticks(range(6), sentence.tokens, rotation=40)
        ax.set_yticks(range(6), sentence.tokens)
        for i, row in enumerate(state.weights.tolist()):
            for j, weight in enumerate(row):
                ax.text(j, i, f"{weight:.2f}", ha="center", va="center", color="white" if weight < 0.5 else "black")
        plt.show()

    return plain(draw)


def interact_12x64():
    explorer = SplitExplorer(load_sentence("journey"))

    @torch.no_grad()
    def draw(seed):
        state = split_heads(explorer.embeddings, explorer.tokens, dropout=0.0, seed=seed, **LARGE)
        _, axes = plt.subplots(3, 4, figsize=(9, 7))
        for head, ax in enumerate(axes.flat):
            ax.imshow(state.shown[head], vmin=0, vmax=4 / 64)
            ax.set_title(f"head {head + 1}")
            ax.set(xticks=[], yticks=[])
        plt.show()

    return plain(draw)


def floor(style=""):
    """Neither attention nor a figure: what a move costs in the page before anything is drawn."""
    slider, picture = widgets.IntSlider(1, 0, 999, description="seed"), widgets.HTML()

    def draw(_):
        png = BytesIO()
        Image.new("L", (8, 8), slider.value % 256).save(png, "PNG")
        picture.value = (
            f'<img {MARK} alt="" style="{style}" '
            f'src="data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}">'
        )

    slider.observe(draw, "value")
    draw(None)
    display(widgets.VBox([slider, picture]))
    return slider


def floor_in_room():
    """The floor's image as large as the 6 x 6 picture: what showing so many pixels costs, whatever is on them."""
    return floor("width:1080px;height:330px;image-rendering:pixelated")


def plain(draw):
    slider = widgets.IntSlider(1, 0, 999)
    widgets.interact(draw, seed=slider)
    return slider


WAYS = {f.__name__: f for f in (explorer_6x6, interact_6x6, explorer_12x64, interact_12x64)}


def measure(moves):
    """Milliseconds from a slider's change to the end of its callbacks, `moves` for each way, taken in turns."""
    sliders = {name: make() for name, make in WAYS.items()}
    times = {name: [] for name in WAYS}
    for _ in range(moves):
        for name, slider in sliders.items():
            start = time.perf_counter()
            slider.value += 1
            times[name].append(1000 * (time.perf_counter() - start))
    return times
