"""A notebook's figures as drawings in the colours of the site's page: the cells that show them are run again.

A figure is only drawn if the run's picture is the stored one, so that the site shows what the notebook shows.
"""

import base64
import io
import json
import re
from math import ceil
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
from matplotlib import rc_context
from PIL import Image
from sphinx.util import logging

from attention_helpers import plots

from .live_pages import kept
from .run_cell import code_for, shown_by

PNG = "image/png"
PAGE = "var(--pst-color-background)"  # what white becomes
SEEN_ON_BOTH = range(0x60, 0x90)  # greys that stay as they are
SMALLEST = 8  # pixels of a letter on a phone
MANY, NEARLY = 10_000, 0.05  # pixels of an image; a difference of colours that is none
FAR, MOST = 32, 0.002  # how far a colour may differ unseen, and the share of pixels that may differ more


def alike(picture, other):
    """Whether two PNGs show the same."""
    first, second = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=int) for png in (picture, other))
    return first.shape == second.shape and (abs(first - second).max(axis=-1) > FAR).mean() <= MOST


def exact(caption):
    """What a caption says on every machine: after an ≈, training may have led to other digits."""
    return re.sub(r"≈ \S+", "≈", caption)


def unmixed(rgba):
    """An image on white as full colours with opacity, one for each hue; greys are black."""
    colours, amount = rgba[..., :3], 1 - rgba[..., :3].min(axis=-1)
    alpha, steps = amount * rgba[..., 3], 15 if amount.size > MANY else 63
    full = np.zeros_like(colours)
    for hue in range(3 * (np.ptp(colours, axis=-1).max() > NEARLY)):
        part = colours.argmax(axis=-1) == hue
        most = np.unravel_index((alpha * part).argmax(), part.shape)
        full[part] = 1 - (1 - colours[most]) / max(amount[most], NEARLY)
    faded = np.concatenate([full, np.round(alpha * steps)[..., None] / steps], axis=-1)
    return Image.fromarray(np.uint8(np.round(255 * faded.clip(0, 1))))


def fade(image):
    """Turn an SVG image's colours on white into colours with opacity. Returns whether they're all grey."""
    stored = base64.b64decode(image.get("href").split(",")[1])
    rgba = np.asarray(Image.open(io.BytesIO(stored)).convert("RGBA")) / 255
    if rgba[..., 0].size > MANY:
        image.attrib.pop("style", None)  # where pixels are as small as the screen's, sharp ones would hide some rows
    faded = unmixed(rgba)
    faded.save(file := io.BytesIO(), "WEBP", lossless=True, method=6)
    image.set("href", f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}")
    grey = not np.asarray(faded)[..., :3].any()
    if grey:
        image.set("class", "attention-black")
    return grey


def ink(colour):
    """What replaces a figure's colour on light and dark pages, and its opacity."""
    levels = bytes.fromhex(colour[1:])
    if max(levels) - min(levels) > 8 or levels[0] in SEEN_ON_BOTH:
        return colour, 1
    return (PAGE, 1) if levels[0] == 255 else ("currentColor", 1 - levels[0] / 255)


def paint(element, white):
    """Give an element colours that follow the page; white: the colour of white letters."""
    style = dict(re.findall(r"([\w-]+): ?([^;]+)", element.get("style", "")))
    style.pop("font-family", None)
    for name in {"fill", "stroke"} & style.keys():
        if re.fullmatch("#[0-9a-f]{6}", style[name]):
            style[name], alpha = (white, 1) if (element.tag, style[name]) == ("text", "#ffffff") else ink(style[name])
            if alpha < 1:
                style[f"{name}-opacity"] = f"{alpha * float(style.get(f'{name}-opacity', 1)):.2f}"
    element.attrib.pop("style", None)
    if style:
        element.set("style", ";".join(f"{name}:{value}" for name, value in style.items()))


def short(match):
    """A number with as many decimals as a reader can see."""
    return f"{float(match[0]):.{1 if abs(float(match[0])) >= 10 else 2}f}".rstrip("0").rstrip(".")


def svg_of(figure, caption):
    """What matplotlib writes, shortened: letters stay letters, and no two figures share an id."""
    for image in [image for ax in figure.axes for image in ax.images]:
        image.set_interpolation("none")
    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}):
        figure.savefig(
            file, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    svg = re.sub(r'\sxmlns[\w:]*="[^"]*"|xlink:|<style.*?</style>| transform="rotate\(-0 [^"]*"', "", file.getvalue())
    svg = re.sub(r"\d+\.\d{2,}(?=[^<>]*>)", short, svg)
    svg = re.sub(r"\s+(?=[^<>]*>)", " ", re.sub(r">\s+<", "><", svg))
    return svg.replace('fill="#ffffff"', 'style="fill: #ffffff"')


def drawing(figure, caption):
    """A figure as a drawing for a page."""
    svg = svg_of(figure, caption)
    root, used = ElementTree.fromstring(svg), set(re.findall(r"#(\w+)", svg))
    grey = False not in {fade(image) for image in root.iter("image")}
    for element in root.iter():
        paint(element, PAGE if grey else "#fff")
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if element.tag == "text" and element.text:
            element.text = element.text.replace(" ", "\N{NO-BREAK SPACE}")  # two of them stay two
    least = min(map(float, re.findall(r"font-size: ([\d.]+)px", svg))) * plots.SHOWN_DPI / 72
    width = figure.get_figwidth() * plots.SHOWN_DPI
    narrow = ceil(width * SMALLEST / least)
    root.attrib = {"class": "figure", "viewBox": root.get("viewBox"), "role": "img", "aria-label": caption}
    shape = "/".join(root.get("viewBox").split()[2:])  # for a browser that doesn't draw it yet
    root.set("style", f"width:min(100%,{max(round(width), narrow)}px);min-width:{narrow}px;aspect-ratio:{shape}")
    return ElementTree.tostring(root, encoding="unicode")


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
    """A notebook's figures as drawings by caption, without those that differ now because they show a measurement."""
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
        say = logging.getLogger(__name__)
        (say.info if "≈" in caption else say.warning)("%s: this figure can't be drawn again: %s", docname, caption)
    return made
