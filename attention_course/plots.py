"""Figures of plain arrays: draw_* functions draw on axes, show_figure displays a figure and its caption.

We don't use pyplot, because a slider's callback can run on a second thread and pyplot has one current figure for all.
Arrays can be NumPy arrays or tensors. A weight is ink: zero is the page, and the largest value has its full colour.
"""

from io import BytesIO
from itertools import cycle

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from PIL import Image

SHORT = 140  # characters of a caption that isn't folded
SHOWN_DPI = 80  # pixels per inch on the page; we draw at twice that, for high-density screens
FAINT = (0, 0, 0, 0.15)  # black with opacity: on a dark page, the site turns it round
# One per head, the same everywhere: their contrast is at least 2.85 on white and dark pages, also for the colour-blind.
HEAD_COLOURS = ("#0077CC", "#DD7700", "#00AA88", "#BB2244", "#9988FF", "#BB1199", "#767676", "#CC77AA")
QUERY, KEY, VALUE = "#A58200", "#945261", "#0A96AE"  # and of what's made of them: scores have the next pair
BELOW, ABOVE = "#3C7A1E", "#7A50C8"  # signed values: below zero, in every table, and above zero
WRONG = "#D9483B"  # and the future's outline; nothing else is red
# The same as text, on a light page and on a dark one.
QUERY_TEXT, KEY_TEXT = "light-dark(#7A5F00, #D6AE2E)", "light-dark(#8A4556, #DC98A9)"
VALUE_TEXT = "light-dark(#00748A, #3FBBD2)"
RIGHT_TEXT, WRONG_TEXT = "light-dark(#1B7A35, #5CC47A)", "light-dark(#B3261E, #FF8A7A)"
GREY = "#767676"  # what is of no head, such as influence
SERIES = (GREY, "#7A68D8", "#A8791F", "black")  # bars and lines of no head; each line has its own marker, too
WEIGHTS = LinearSegmentedColormap.from_list("weights", [to_rgba(HEAD_COLOURS[0], 0), to_rgba(HEAD_COLOURS[0], 1)])


def as_array(values):
    """Any array or tensor as a float64 NumPy array; tensors are detached first."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=np.float64)


def as_table(values, **labels):
    """Like as_array; ValueError unless it has two dimensions, isn't empty, and fits the labels of rows and columns."""
    table = as_array(values)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"values must be a table (rows, columns), got the shape {table.shape}")
    for (name, given), count in zip(labels.items(), table.shape, strict=False):
        check_labels(name, given, count)
    return table


def check_labels(name, labels, count, kind="label"):
    """ValueError unless there is one label (or head, colour, ...: see `kind`) for each of `count` items."""
    if len(labels) != count:
        raise ValueError(f"{name} must hold one {kind} for each of {count}, got {len(labels)}: {list(labels)}")


def head_colour(head):
    """The colour of a head, the same in every figure; from the ninth head on, the colours repeat."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def new_figure(columns=1, rows=1, width=4.6, height=3.8):
    """A figure of rows x columns axes, each width x height inches. Returns the figure and the axes, row by row."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    with rc_context({"grid.color": FAINT}):
        return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def luminance(rgb):
    """WCAG's relative luminance, 0 to 1, of sRGB colours (..., 3). Above 0.179, black text is easier to read."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)


def draw_bars(ax, series, labels, title="", ylabel="", *, colours=SERIES):
    """Bars side by side: `series` maps a name to one number per label."""
    width = 0.8 / len(series)
    for n, (name, values) in enumerate(series.items()):
        places = np.arange(len(labels)) + (n - (len(series) - 1) / 2) * width
        ax.bar(places, as_array(values), width, label=name, color=colours[n % len(colours)])
    ax.set_xticks(range(len(labels)), labels, rotation=30, ha="right", rotation_mode="anchor")
    ax.set(title=title, ylabel=ylabel)
    if len(series) > 1:
        ax.legend(fontsize=8, frameon=False)


def draw_lines(ax, x, series, title="", xlabel="", ylabel=""):
    """Lines with markers: `series` maps a name to one number per x."""
    for (name, y), marker, colour in zip(series.items(), cycle("os^Dv<>p"), cycle(SERIES), strict=False):
        ax.plot(as_array(x), as_array(y), label=name, marker=marker, color=colour)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.grid(color=FAINT)
    ax.legend(fontsize=8, frameon=False)


def strongest(values, rows, columns):
    """A matrix in words: the largest entry of each row, "Your → journey 0.24, ..."."""
    values = as_table(values, rows=rows, columns=columns)
    return ", ".join(f"{rows[i]} → {columns[j]} {values[i, j]:.2f}" for i, j in enumerate(values.argmax(axis=1)))


def png_bytes(figure):
    """A figure as PNG, at twice the size it's shown at; 256 colours keep the notebook file small."""
    figure.set_dpi(2 * SHOWN_DPI)
    agg, png = FigureCanvasAgg(figure), BytesIO()
    agg.draw()
    picture = Image.fromarray(np.asarray(agg.buffer_rgba())).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    return png.getvalue()


def show_figure(figure, caption):
    """Display a figure in a notebook, with a caption that gives its numbers to readers who can't see it.

    A long caption is folded below the figure's titles.
    """
    from IPython.display import Markdown, display  # only notebooks need it

    if not (isinstance(caption, str) and any(sign.isdigit() for sign in caption)):
        raise ValueError(f"caption must say the figure's numbers in words, got {caption!r}")
    width = round(figure.get_figwidth() * SHOWN_DPI)
    data = {"image/png": png_bytes(figure), "text/plain": "Figure; the next lines say what it shows."}
    display(data, metadata={"image/png": {"alt": caption, "width": width}}, raw=True)
    titles = "; ".join(filter(None, (ax.get_title() for ax in figure.axes)))
    if len(caption) <= SHORT or not titles:
        display(Markdown(f"*Figure:* {caption}"))
        return
    fold = f"<details><summary>Its numbers</summary>\n\n{caption}\n\n</details>"
    display(Markdown(f"*Figure:* {titles}.\n\n{fold}"))
