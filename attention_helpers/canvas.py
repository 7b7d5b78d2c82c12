"""Pictures that follow a slider: a saved background, and over it only what moved.

A whole figure takes matplotlib a tenth of a second, too long for a slider. So plots draws the axes once, and a Canvas
keeps them as an image of palette indices: one byte a pixel, which makes the PNG quick as well. Cells, bars and
numbers are then set by index; each number is a raster that matplotlib drew once.
"""

import struct
import zlib
from functools import lru_cache

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from .plots import HEAD_COLOURS, SHOWN_DPI, as_array, as_table

DPI = 2 * SHOWN_DPI  # drawn at twice the size at which it is shown, for screens of twice the pixel density
GREYS = 32  # white to black
INKS = 4  # steps in which a number's edge fades into its cell; full ink is a grey
LEVELS = 46  # shades of the colour map, each with its faded edges
BLACK, HATCH_LIGHT, HATCH_DARK = GREYS - 1, 3, 12
HATCH = np.full((12, 12), HATCH_LIGHT, np.uint8)  # a tile of the diagonal lines over hidden cells
np.fill_diagonal(HATCH[::-1], HATCH_DARK)
FIRST_HEAD = GREYS + LEVELS * INKS


@lru_cache(maxsize=1)
def palette():
    """The colours of every picture (256, 3), uint8, and the indices (LEVELS, INKS + 1) that blend ink into a shade."""
    greys = np.linspace(1, 0, GREYS)[:, None].repeat(3, axis=1)
    shades = colormaps["viridis"](np.linspace(0, 1, LEVELS))[:, :3]
    dark = shades @ (0.299, 0.587, 0.114) <= 0.5  # dark cells get white numbers
    ink = np.where(dark, 1.0, 0.0)[:, None, None]
    share = np.linspace(0, 1, INKS + 1)[:INKS, None]
    blends = shades[:, None] * (1 - share) + ink * share  # (LEVELS, INKS, 3)
    heads = [to_rgb(colour) for colour in HEAD_COLOURS]
    colours = np.ones((256, 3))
    used = np.concatenate([greys, blends.reshape(-1, 3), heads])
    colours[: len(used)] = used
    faded = GREYS + np.arange(LEVELS * INKS).reshape(LEVELS, INKS)
    full = np.where(dark, 0, BLACK)[:, None]
    return (colours * 255).round().astype(np.uint8), np.concatenate([faded, full], axis=1).astype(np.uint8)


def level_of(values, limits):
    """The shade of each value: 0 at the lower limit, LEVELS - 1 at the upper, the nearest of both beyond them."""
    low, high = limits
    share = (values - low) / ((high - low) or 1)
    return (share.clip(0, 1) * (LEVELS - 1)).round().astype(int)


@lru_cache(maxsize=4096)
def text_raster(text, size):
    """A text's ink (height, width), from 0 for none to INKS for full."""
    figure = Figure(figsize=(0.014 * size * (len(text) + 2), 0.03 * size), dpi=DPI)
    figure.text(0.5, 0.5, text, fontsize=size, ha="center", va="center")
    agg = FigureCanvasAgg(figure)
    agg.draw()
    ink = 1 - np.asarray(agg.buffer_rgba())[..., 0] / 255  # (height, width)
    ys, xs = np.nonzero(ink > 0.1)
    if not len(ys):
        return np.zeros((1, 1), np.uint8)
    return (ink[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1] * INKS).round().astype(np.uint8)


def as_png(pixels, colours):
    """Palette indices (height, width) as PNG bytes (PNG specification, sections 5, 9 and 11).

    Pillow writes the same picture, but offers no choice of the row filter. Cells are many equal rows: with every row as
    its difference to the row above, the file is up to 2.5 times smaller, and sooner written, sent and decoded.
    """
    rows = np.empty((pixels.shape[0], pixels.shape[1] + 1), np.uint8)
    rows[:, 0] = 2  # the filter "up"
    rows[0, 1:] = pixels[0]
    np.subtract(pixels[1:], pixels[:-1], out=rows[1:, 1:])
    deflate = zlib.compressobj(1, strategy=zlib.Z_RLE)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 3, 0, 0, 0)  # 8 bits a pixel, by palette
    parts = [(b"IHDR", header), (b"PLTE", colours.tobytes()), (b"IDAT", deflate.compress(rows) + deflate.flush())]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in [*parts, (b"IEND", b"")])


def chunk(kind, data):
    """A PNG's part: length, kind, data and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Canvas:
    """A figure's background, and what moves upon it. A box is one of the figure's axes, named by its number."""

    def __init__(self, figure):
        figure.set_dpi(DPI)
        agg = FigureCanvasAgg(figure)
        agg.draw()
        picture = Image.fromarray(np.asarray(agg.buffer_rgba())[..., :3].copy())
        chart = Image.new("P", (1, 1))
        chart.putpalette(palette()[0].tobytes())
        self.background = np.asarray(picture.quantize(palette=chart, dither=Image.Dither.NONE)).copy()
        self.pixels = None  # the picture under way; only the background is kept from one to the next
        height = len(self.background)
        extents = [ax.get_window_extent() for ax in figure.axes]
        # matplotlib counts pixels from below, an image from above; the frame's own line stays outside
        self.boxes = [
            (round(height - e.y1) + 1, round(height - e.y0) - 1, round(e.x0) + 1, round(e.x1) - 1) for e in extents
        ]
        self.ranges = [ax.get_ylim() for ax in figure.axes]
        figure.clear()  # its parts refer to each other, and would wait for the garbage collector

    def start(self):
        """Begin a picture with the bare background."""
        self.pixels = self.background.copy()

    def update_heatmap(self, box, values, limits=(0, 1), hidden=None, size=9, decimals=2):
        """Colour a box's cells by `values` (rows, columns), hatch the hidden ones, and write numbers where they fit."""
        values = as_table(values)
        hide = ~np.isfinite(values) if hidden is None else as_array(hidden).astype(bool) | ~np.isfinite(values)
        levels = level_of(np.where(hide, limits[0], values), limits)
        top, bottom, left, right = self.boxes[box]
        y, x = edges(top, bottom, values.shape[0]), edges(left, right, values.shape[1])
        row, column = np.repeat(np.arange(len(y) - 1), np.diff(y)), np.repeat(np.arange(len(x) - 1), np.diff(x))
        cells = palette()[1][levels, 0].take(row, axis=0).take(column, axis=1)  # (height, width)
        self.pixels[top:bottom, left:right] = cells
        if hide.any():
            fine = min(np.diff(y)) < 3 * len(HATCH)  # small cells are grey without lines, which also packs better
            tiles = -(-cells.shape[0] // len(HATCH)), -(-cells.shape[1] // len(HATCH))
            pattern = HATCH_LIGHT if fine else np.tile(HATCH, tiles)[: cells.shape[0], : cells.shape[1]]
            np.copyto(self.pixels[top:bottom, left:right], pattern, where=hide[row][:, column])
        if min(np.diff(y)) > 2.2 * size and min(np.diff(x)) > 1.5 * size * (decimals + 2):
            for i, j in zip(*np.nonzero(~hide), strict=True):
                middle = (y[i] + y[i + 1]) // 2, (x[j] + x[j + 1]) // 2
                self.write(f"{values[i, j]:.{decimals}f}", middle, size, palette()[1][levels[i, j]])

    def update_bars(self, box, series, size=8):
        """Bars side by side in a box, with their numbers: `series` holds lists of heights, a colour each."""
        top, bottom, left, right = self.boxes[box]
        low, high = self.ranges[box]
        table = np.array([as_array(values) for values in series])  # (series, labels)
        x = edges(left, right, table.shape[1])
        shares = (np.concatenate([table, np.zeros((1, table.shape[1]))]).clip(low, high) - low) / (high - low)
        *tips, zeros = (bottom - shares * (bottom - top)).round().astype(int)  # as heights in pixels
        for j in range(table.shape[1]):
            width = (x[j + 1] - x[j]) * 0.8 / len(table)
            for n, value in enumerate(table[:, j]):
                start = x[j] + (x[j + 1] - x[j]) * 0.1 + n * width
                bar = slice(*sorted((tips[n][j], zeros[j]))), slice(int(start), int(start + width))
                self.pixels[bar] = FIRST_HEAD + n
                above = max(tips[n][j] - 12, top + 8) if value >= 0 else min(tips[n][j] + 12, bottom - 8)
                self.write(f"{value:.2f}", (above, int(start + width / 2)), size)

    def write(self, text, middle, size, inks=None):
        """Write a text around its middle (y, x), clipped to the picture; `inks` are the indices from no to full ink."""
        raster = text_raster(text, size)
        inks = np.linspace(0, BLACK, INKS + 1).round().astype(np.uint8) if inks is None else inks
        top, left = max(middle[0] - raster.shape[0] // 2, 0), max(middle[1] - raster.shape[1] // 2, 0)
        region = self.pixels[top : top + raster.shape[0], left : left + raster.shape[1]]
        raster = raster[: region.shape[0], : region.shape[1]]
        region[:] = np.where(raster > 0, inks[raster], region)

    def mark(self, box, shape, row=None, column=None):
        """Frame one row or column of a heatmap of `shape` cells."""
        top, bottom, left, right = self.boxes[box]
        if row is not None:
            top, bottom = edges(top, bottom, shape[0])[row : row + 2]
        if column is not None:
            left, right = edges(left, right, shape[1])[column : column + 2]
        frame = self.pixels[top:bottom, left:right]
        for side in (frame[:4], frame[-4:], frame[:, :4], frame[:, -4:]):
            side[:] = FIRST_HEAD + 5  # vermilion: no shade of the colour map comes near it

    def rule(self, box, place, count):
        """A vertical line through a box, at one of `count` evenly spaced places."""
        top, bottom, left, right = self.boxes[box]
        middle = left + round((place + 0.5) * (right - left) / count)
        self.pixels[top:bottom, middle - 2 : middle + 2] = FIRST_HEAD + 5

    def png(self):
        """Finish the picture; returns it as PNG bytes."""
        pixels, self.pixels = self.pixels, None
        return as_png(pixels, palette()[0])

    @property
    def size(self):
        """Width and height at which the picture is shown, in pixels of the page."""
        height, width = self.background.shape
        return width // 2, height // 2


def edges(start, stop, count):
    """Where `count` cells between two pixels begin and end: count + 1 whole numbers."""
    return np.linspace(start, stop, count + 1).round().astype(int)
