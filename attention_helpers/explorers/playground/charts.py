"""Two charts of a run so far: its losses and its accuracy."""

import math

from ...plots import head_colour
from ..svg import TOP, Drawing, axes, below, curve, tag, text

COLOURS = {"training": 4, "held-out": 3, "honest, held-out": 5}  # head colours that no head here uses


def measured_curves(measured, honest, width, height):
    """The charts, one below the other. measured: a list of Measured, honest: of Honest, both ordered by step."""
    losses = {
        "training": [(each.step, each.loss) for each in measured],
        "held-out": [(each.step, each.held_loss) for each in measured],
        "honest, held-out": [(each.step, each.loss) for each in honest],
    }
    rights = {
        "training": [(each.step, each.right) for each in measured],
        "held-out": [(each.step, each.accuracy) for each in measured],
    }
    until = end_of_axis([100, 200, 500, 1000], measured[-1].step)
    most = max(loss for curve in losses.values() for _, loss in curve if math.isfinite(loss))
    return below(
        chart(losses, "loss by step (nats)", until, end_of_axis([3, 6, 12], most), width, height),
        chart(rights, "right answers by step (%)", until, 1, width, height, scale=100),
        gap=0,
    )


def end_of_axis(ends, value):
    """The first of `ends` that isn't below the value, or else the last one, doubled as often as needed."""
    end = next((end for end in ends if value <= end), ends[-1])
    while end < value < math.inf:
        end *= 2
    return end


def chart(curves, title, until, high, width, height, scale=1):
    """Curves by name, lists of (step, value), up to `until` and `high`; scale: multiplies the axis labels."""
    left, right, top, bottom = 46, width - 10, TOP, TOP + height
    spot = lambda step, value: (left + step / until * (right - left), bottom - value / high * height)  # noqa: E731
    ticks = [(f"{scale * value:g}", spot(0, value)[1]) for value in (0, high / 2, high)]
    steps = [(f"{step:g}", spot(step, 0)[0]) for step in (0, until / 2, until)]
    parts, x = axes(title, left, right, top, bottom, ticks, steps), left
    for name, measured in curves.items():
        if spots := [spot(step, value) for step, value in measured if math.isfinite(value)]:
            ink, (end_x, end_y) = head_colour(COLOURS[name]), spots[-1]
            parts += [curve(spots, name, stroke=ink), tag("circle", cx=end_x, cy=end_y, r=3, fill=ink)]
            parts.append(tag("rect", x=x, y=bottom + 20, width=9, height=9, fill=ink))
            parts.append(text(x + 13, bottom + 28, name, "start"))
            x += 36 + 6 * len(name)
    return Drawing("".join(parts), width, bottom + 36)
