"""What stands still under an explorer's picture: axes, names, titles and legends, drawn once by matplotlib.

The cells and bars come from canvas.py. No pyplot here either; arrays and words only.
"""

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .plots import check_labels, head_colour

NAMES_UP_TO = 8  # token names a side: beyond that they no longer fit


def row_figure(ratios, width=9.4, height=3.3):
    """A figure with axes side by side, their widths in the given ratios. Returns the figure and its axes.

    The size is in inches. No larger than it must be: what a slider's picture costs goes with its pixels.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False).flat)


def grid_figure(count, below=False):
    """A figure for `count` heads, at most four a row, and a wide axes `below`. Returns the figure and its axes."""
    columns, cell = min(count, 4), 2.2 if count <= 4 else 1.75  # inches: a large picture is slow to decode
    rows = -(-count // columns)
    heights = [1] * rows + [1.3] * below
    figure = Figure(figsize=(max(cell * columns, 5.5) + 1.1, cell * sum(heights) + 0.9), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    axes = [figure.add_subplot(grid[n // columns, n % columns]) for n in range(count)]
    add_colour_bar(axes, ("0", "high"))
    if below:
        axes.append(figure.add_subplot(grid[-1, :]))
    return figure, axes


def add_colour_bar(axes, ends):
    """A colour bar beside the axes; its ends are numbers, or words where the limits follow the values."""
    words = isinstance(ends[0], str)
    mappable = ScalarMappable(Normalize(0, 1) if words else Normalize(*ends), "viridis")
    bar = axes[0].figure.colorbar(mappable, ax=axes, shrink=0.85, ticks=(0, 1) if words else None)
    bar.ax.tick_params(labelsize=8)
    if words:
        bar.set_ticklabels(ends)


def name_ticks(axis, names, count):
    """Write names along an axis of `count` cells, or nothing where they do not fit."""
    if names is not None:
        check_labels("names", names, count)
    axis.set_ticks(range(count) if names is not None else [], names if names is not None else [])


def frame_cells(ax, rows, columns, shape, title="", *, legend=None, labels=("query", "key"), head=None):
    """Frame a table of `shape` cells; `rows` and `columns` are names or None.

    legend: a colour bar's two ends as numbers, or as words where the limits follow the values, or None.
    head: puts that head's colour above the cells. Errors: ValueError for names that are not as many as cells.
    """
    ax.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5), ylabel=labels[0], xlabel=labels[1])
    name_ticks(ax.yaxis, rows, shape[0])
    name_ticks(ax.xaxis, columns, shape[1])
    if columns is not None and max(map(len, columns)) > 2:
        ax.tick_params(axis="x", rotation=40)
    ax.tick_params(labelsize=8)
    ax.set_title(title, fontsize=10, fontweight="bold", pad=6 if head is None else 12)
    if head is not None:
        ax.fill([0, 1, 1, 0], [1.01, 1.01, 1.05, 1.05], transform=ax.transAxes, color=head_colour(head), clip_on=False)
    if legend:
        add_colour_bar([ax], legend)


def frame_bars(ax, names, limits, title="", *, series=()):
    """Frame bars between the limits, one place a name; `series` names the colours if there are several."""
    ax.set(xlim=(-0.5, len(names) - 0.5), ylim=limits)
    name_ticks(ax.xaxis, names, len(names))
    ax.tick_params(axis="x", rotation=40)
    ax.tick_params(labelsize=8)
    ax.set_title(title, fontsize=10, fontweight="bold")
    ax.axhline(0, color="0.6", linewidth=0.8)
    if series:
        patches = [Patch(color=head_colour(n), label=name) for n, name in enumerate(series)]
        ax.legend(handles=patches, fontsize=7, loc="upper right", frameon=False)


def frame_curve(ax, labels, values, title="", xlabel=""):
    """Draw values over evenly spaced places; a label stands at the first, the last and some between."""
    ax.plot(range(len(values)), values, color=head_colour(0), linewidth=1.6)
    ax.set(xlim=(-0.5, len(values) - 0.5), ylim=(0, max(values) * 1.08), xlabel=xlabel)
    places = sorted({round(n) for n in np.linspace(0, len(values) - 1, 6)})
    ax.set_xticks(places, [str(labels[place]) for place in places])
    ax.tick_params(labelsize=8)
    ax.set_title(title, fontsize=10, fontweight="bold")


def frame_powers(ax, x, curves, points, title="", xlabel="", ylabel=""):
    """Draw curves over evenly spaced powers x, and measured points by x, on logarithmic axes."""
    half = (x[1] / x[0]) ** 0.5
    for n, (name, values) in enumerate(curves.items()):
        ax.plot(x, values, color=head_colour(n), linewidth=1.6, label=name)
    for n, (name, measured) in enumerate(points.items(), len(curves)):
        ax.plot(list(measured), list(measured.values()), "os^D"[n % 4], color=head_colour(n), label=f"{name}, measured")
    ax.set(xscale="log", yscale="log", xlim=(x[0] / half, x[-1] * half), xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks(x, [str(value) for value in x])
    ax.tick_params(labelsize=8)
    ax.minorticks_off()
    ax.set_title(title, fontsize=10, fontweight="bold")
    ax.legend(fontsize=7, loc="upper left", frameon=False)


def colour_columns(ax, heads):
    """Give each column a band in the colour of its head, above the cells; `heads` names the head of every column."""
    for column, head in enumerate(heads):
        ax.axvspan(column - 0.48, column + 0.48, ymin=1.0, ymax=1.06, color=head_colour(head), clip_on=False)


def limits_of(values):
    """The smallest and the largest finite value, as floats; (0, 1) if there is none."""
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def span(values, room=0.18):
    """Limits for bars of these values: from 0 or below to a little above the largest, so that numbers fit."""
    low, high = limits_of(values)
    low, high = min(low, 0.0), max(high, 0.0)
    return low * (1 + room) if low else 0.0, high * (1 + room) or 1.0
