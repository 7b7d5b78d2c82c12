"""A notebook's figures as drawings in the colours of the site's page: the cells that show them are run again.

A figure is only drawn if the run's picture is the stored one, so that the site shows what the notebook shows.
"""

import base64
import html
import io
import json
import re
from math import ceil
from pathlib import Path
from unittest.mock import patch

import numpy as np
from matplotlib import rc_context
from PIL import Image

from attention_helpers import plots

from .live_pages import LARGE_IMAGE, kept, lighter
from .run_cell import code_for, shown_by

PNG = "image/png"
SMALLEST = 8  # pixels of a letter on a phone
FAR, MOST = 32, 0.002  # how far a colour may differ unseen, and the share of pixels that may differ more


def alike(picture, other):
    """Whether two PNGs show the same."""
    first, second = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=int) for png in (picture, other))
    return first.shape == second.shape and (abs(first - second).max(axis=-1) > FAR).mean() <= MOST


def exact(caption):
    """What a caption says on every machine: after an ≈, training may have led to other digits."""
    return re.sub(r"≈ \S+", "≈", caption)


def short(match):
    """A number with as many decimals as a reader can see."""
    return f"{float(match[0]):.{1 if abs(float(match[0])) >= 10 else 2}f}".rstrip("0").rstrip(".")


def svg_of(figure, caption):
    """What matplotlib writes, shortened: letters stay letters, and no two figures share an id."""
    for image in [image for ax in figure.axes for image in ax.images]:
        image.set_interpolation("none")
        if not any(image.cmap(1.0)[:3]):  # black, which is turned round on a dark page
            image.set_gid("attention-black")
    file, none = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}):
        figure.savefig(file, format="svg", transparent=True, metadata=none)
    svg = re.sub(LARGE_IMAGE, lighter, file.getvalue()).replace('id="attention-black"', 'class="attention-black"')
    svg = re.sub(r'<style.*?</style>|font-family: [^;"]*;? ?|xlink:', "", svg)
    svg = re.sub(r"\d+\.\d{2,}(?=[^<>]*>)", short, svg)
    svg = re.sub(r"\s+(?=[^<>]*>)", " ", re.sub(r">\s+<", "><", svg))
    used = re.findall(r"#(\w+)", svg)
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)


def drawing(figure, caption):
    """A figure as a drawing for a page."""
    svg = svg_of(figure, caption).replace("#000000", "currentColor")
    least = min(map(float, re.findall(r"font-size: ([\d.]+)px", svg))) * plots.SHOWN_DPI / 72
    width = figure.get_figwidth() * plots.SHOWN_DPI
    narrow, box = ceil(width * SMALLEST / least), re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    shape = "/".join(box.groups())  # for a browser that doesn't draw it yet
    style = f"width:min(100%,{max(round(width), narrow)}px);min-width:{narrow}px;aspect-ratio:{shape}"
    start = f'<svg class="figure" {box[0]} role="img" aria-label="{html.escape(caption)}" style="{style}">'
    return start + re.split("<svg [^>]*>", svg)[1]


def drawn(codes, stored):
    """The stored pictures that the codes show again, as drawings by caption; stored: PNGs by caption."""
    import torch  # it takes seconds, which a page without a figure needn't wait

    torch.set_num_threads(1)
    found = {}

    def keep(figure, caption):
        for same in [each for each in stored if exact(each) == exact(caption)]:
            if alike(plots.png_bytes(figure), stored[same]):
                found[same] = drawing(figure, same)

    with patch.object(plots, "show_figure", keep):
        shown_by(codes)
    return found


def drawings(notebook, docname):
    """A notebook's figures as drawings by caption; the page shows the others as they're stored.

    A figure can differ because it shows a measurement, or a training, which ends a bit differently on each CPU.
    """
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    codes = ["".join(cell["source"]) for cell in cells]
    outputs = [(code, output) for cell, code in zip(cells, codes, strict=True) for output in cell["outputs"]]
    shown = [(code, output) for code, output in outputs if PNG in output.get("data", {})]
    stored = {output["metadata"][PNG]["alt"]: base64.b64decode(output["data"][PNG]) for _, output in shown}
    if not stored:
        return {}
    needed = sorted({codes.index(each) for code, _ in shown for each in code_for(code, codes)})
    needed = [codes[place] for place in needed]
    depends = [*needed, *(output["data"][PNG] for _, output in shown)]
    name = f"figures-{Path(docname).name}"
    made = json.loads(kept(name, [Path(__file__)], depends, lambda: json.dumps(drawn(needed, stored))))
    for caption in stored.keys() - made.keys():
        print(f"{docname}: here this figure comes out differently, so the page shows the stored one: {caption[:60]}…")
    return made
