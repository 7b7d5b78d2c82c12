"""A weight is ink: zero is the page, the largest weight has its head's full colour, and what's between is opacity.

So a strong weight stands out on a light page and on a dark one, and zero, hidden and dropped look different.
"""

import base64
import io
from collections import namedtuple
from functools import lru_cache

import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from attention_course.plots import ABOVE, BELOW, GREY, HEAD_COLOURS, KEY, QUERY, VALUE, as_array, luminance

FULL = 64  # steps of opacity; even, so that 0.5, 0.25, ... are in the middle of a step, not between two
PAGES = np.array([[[1.0, 1.0, 1.0]], [[17 / 255] * 3]])  # JupyterLab's pages, light and dark
READABLE = 4.5  # the contrast that WCAG asks of small type
OPACITIES = {level: f'fill-opacity="{abs(level) / FULL:.3g}"' for level in range(-FULL, FULL + 1)}
FINE = 4096  # steps of a value, each with its step of opacity; looking that up is faster than computing it
LIFTED = np.linspace(0, 1, FINE + 1) ** 0.7  # thin pixels need more ink than large cells
# How values are drawn: attributes of a group of cells; by level, from -FULL to FULL, those of a cell and of its number;
# the colours of negative and of positive values. A number is in the page's colour where nothing is said, else in black
# or white, whichever can be read on both pages.
Ink = namedtuple("Ink", "group cells numbers below above")


def numbers_on(colour):
    """By level, the attribute of a number in a cell of this colour."""
    shares = np.linspace(0, 1, FULL + 1)[:, None]
    light, dark = luminance(PAGES * (1 - shares) + np.array(to_rgb(colour)) * shares) + 0.05
    white = np.minimum(1.05 / light, 1.05 / dark) >= READABLE
    own = np.minimum(light / 0.05, 1.05 / dark) >= READABLE  # black on the light page, white on the dark one
    looks = ['fill="#fff"' if a else "" if b else 'fill="#000"' for a, b in zip(white, own, strict=True)]
    return {level: looks[abs(level)] for level in OPACITIES}


@lru_cache
def ink(above, below=None):
    """An Ink of one colour, or of one for positive and one for negative values."""
    if below is None:
        return Ink(f'fill="{above}"', OPACITIES, numbers_on(above), above, above)
    cells = {level: f'fill="{below if level < 0 else above}" {share}' for level, share in OPACITIES.items()}
    low, high = numbers_on(below), numbers_on(above)
    return Ink("", cells, {level: (low if level < 0 else high)[level] for level in OPACITIES}, below, above)


WEIGHT_INK, SIGNED_INK, NEUTRAL = ink(HEAD_COLOURS[0]), ink(ABOVE, BELOW), ink(GREY)
QUERY_INK, KEY_INK, VALUE_INK = ink(QUERY, BELOW), ink(KEY, BELOW), ink(VALUE, BELOW)
# Of no head's colour.
PAGE_INK = Ink('fill="currentColor"', OPACITIES, dict.fromkeys(OPACITIES, ""), "currentColor", "currentColor")


def levels(values, limit=1.0):
    """The level of each value, from -FULL to FULL at the limit, clipped beyond it; NaN has none, like zero."""
    shares = np.clip(as_array(values) / limit, -1, 1)
    return np.rint(np.where(np.isnan(shares), 0, shares) * FULL).astype(int)


def weight_limit(num_tokens):
    """The weight with full colour: with many tokens most weights are small."""
    return min(1.0, 4 / num_tokens)


def largest(values):
    """The largest absolute value, as the limit of signed values; 1 if there's none but a rest of rounding."""
    most = float(np.abs(np.nan_to_num(as_array(values), posinf=0, neginf=0)).max(initial=0))
    return most if most > 1e-9 else 1.0


class Palette:
    """The colours of an image with one pixel per cell: no ink at all, then each colour in steps of opacity."""

    def __init__(self, *colours):
        self.steps = 240 // len(colours)
        self.lifted = np.rint(LIFTED * self.steps).astype(np.uint8)
        shares = np.tile(np.arange(1, self.steps + 1) / self.steps, len(colours))
        rgb = np.repeat([to_rgb(colour) for colour in colours], self.steps, axis=0)
        self.rgb = bytes(3) + (255 * rgb).round().astype(np.uint8).tobytes()
        self.alpha = bytes(1) + (255 * shares).round().astype(np.uint8).tobytes()

    def indices(self, values, limit=1.0, which=0):
        """The index of each value's colour; which: of the palette's colours, one for all values or one for each."""
        fine = as_array(values) * (FINE / limit) + 0.5
        np.fmax(fine, 0, out=fine)  # which is 0 for NaN too
        steps = self.lifted[np.minimum(fine, FINE, out=fine).astype(int)]
        return steps + (steps > 0) * np.asarray(which * self.steps, np.uint8)

    def png(self, sheet):
        """The address of an image of indices (rows, columns)."""
        image = Image.fromarray(sheet).convert("P")
        image.putpalette(self.rgb)
        image.save(file := io.BytesIO(), "PNG", transparency=self.alpha, compress_level=1)
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


HEAD_PALETTE, BLACK = Palette(*HEAD_COLOURS), Palette("#000000")
