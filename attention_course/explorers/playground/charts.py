"""The playground's drawings: what the question reads, the answer, the maps, and the curves."""

import html
import math

from attention_course.plots import RIGHT_TEXT, WRONG_TEXT, head_colour

from ..chart import Chart
from ..svg import DASHES, EM, LEFT, PALE, SMALL, TOP, Drawing, arcs, line, move, tag, text
from ..svg_maps import CELLS_UP_TO, frame, head_at, maps_at, masked_key, names_beside, tell_heads
from .runs import NEXT

WHOLE = 590  # pixels, the picture's width
ARCS_WIDTH, ARCS_HIGH = 376, 100  # of the arcs, and how high they rise
# The maps' width, a map's side at most, between maps, and above each for its name.
MAPS_WIDTH, MAP_SIDE, MAPS_GAP, MAPS_TOP = 346, 122, 10, 20
STEP_ENDS = 100, 200, 500, *(1000 * 2**n for n in range(30))  # of the axis of steps
RIGHT_MARK, WRONG_MARK = ("✓", RIGHT_TEXT), ("✗", WRONG_TEXT)


in_percent, in_nats = "{:.0%}".format, "{:.3g}".format


def write_line(words):
    """A line of words; those between asterisks are bold."""
    bold = [{"font_weight": "bold"} if n % 2 else {} for n in range(words.count("*") + 1)]
    parts = [tag("tspan", html.escape(part), **look) for part, look in zip(words.split("*"), bold, strict=True)]
    return Drawing(tag("text", "".join(parts), y=13, font_size=12), WHOLE, 18, words.replace("*", ""))


def question_arcs(state):
    """Arcs from the question to all tokens; each token is in a box, the wanted ones darker."""
    tokens, unused = state.tokens, TOP + 6  # where no arc comes
    drawn = arcs(state.weights[:, state.asks], tokens, state.asks, width=ARCS_WIDTH, height=ARCS_HIGH)
    slot, top = ARCS_WIDTH / len(tokens), unused + ARCS_HIGH
    boxes = [
        tag("rect", x=slot * (n + 0.05), y=top, width=0.9 * slot, height=18, rx=3, fill_opacity=opacity)
        for n, opacity in enumerate("0.22" if n in state.wanted else "0.07" for n in range(len(tokens)))
    ]
    return Drawing(move("".join(boxes) + drawn.svg, 0, -unused), ARCS_WIDTH, ARCS_HIGH + 20)


def draw_answer(question, predicted, answers, heads):
    """What the model answers, large, whether that's right, and from which head it reads each, if that's known."""
    width = 200
    parts = [text(width / 2, 14, f"{question} →", size=13)]
    for n, (said, right) in enumerate(zip(predicted, answers, strict=True)):
        x, (mark, ink) = width * (n + 0.5) / len(answers), RIGHT_MARK if said == right else WRONG_MARK
        words = "" if said == right else f"should be {right}"
        start = x - (16 + EM * SMALL * len(words)) / 2
        parts.append(text(x, 66, said, size=48, font_weight="bold"))
        parts.append(text(start, 93, mark, "start", 16, fill=ink, font_weight="bold"))
        parts.append(text(start + 16, 92, words, "start"))
        if heads:
            parts.append(tag("rect", x=x - 22, y=71, width=44, height=4, fill=head_colour(heads[n])))
            parts.append(text(x, 108, f"from head {heads[n] + 1}", **PALE))
    said = f"{question} is answered with {' '.join(predicted)}; right is {' '.join(answers)}."
    return Drawing("".join(parts), width, 112, said)


def draw_maps(state, hidden, limit):
    """One map per head, the asked row framed; hidden: (num_tokens, num_tokens); limit: the weight of full colour."""
    weights, tokens, asks = state.weights, state.tokens, state.asks
    count, n = len(weights), len(tokens)
    side, gap, small = min(MAP_SIDE, (MAPS_WIDTH - LEFT + MAPS_GAP) / count - MAPS_GAP), MAPS_GAP, n <= CELLS_UP_TO
    if not small:  # gaps of four cells, because all maps are one image
        side = min(MAP_SIDE, n * (MAPS_WIDTH - LEFT) // (count * n + 4 * (count - 1)))
        gap = 4 * side / n
    corners, cell = [(LEFT + head * (side + gap), 0) for head in range(count)], side / n
    parts = ["" if not hidden.any() else masked_key(-16)]
    parts += names_beside(tokens, 0, cell) or [text(LEFT - 5, (asks + 0.5) * cell + 4, tokens[asks], "end")]
    parts += maps_at(corners, side, weights, tokens, limit, hidden, decimals=None)
    room = 0 if small else 2  # around a row that the frame would hide
    for head, (x, y) in enumerate(corners):
        parts.append(head_at(x, y + 1, head, f"head {head + 1}", SMALL))
        parts.append(frame(x - room, y + asks * cell - room, side + 2 * room, cell + 2 * room, 2 - room / 2))
    drawn = move("".join(parts), 0, MAPS_TOP)
    return Drawing(drawn, MAPS_WIDTH, MAPS_TOP + MAP_SIDE + 2, tell_heads(weights, tokens, asks))


def draw_curves(title, curves, written, until, high, learned=None):
    """Curves by name, lists of (step, value), up to `until` and `high`, and below them their names and last values.

    written: how a value is written. learned: the step to mark, or None.
    """
    steps, ticks = {step: f"{step:g}" for step in (0, until / 2, until)}, {value: written(value) for value in (0, high)}
    drawn = Chart(title, (38, 220, TOP, TOP + 66), steps, ticks, written=written)
    x, y = 4, drawn.bottom + 32
    if learned is not None:
        drawn.parts.append(drawn.upright(learned, stroke="currentColor", stroke_opacity=0.4))
    for (name, measured), dashes in zip(curves.items(), DASHES, strict=False):
        shown = [(step, value) for step, value in measured if math.isfinite(value)]
        if not shown:
            continue
        said, look = f"{name} {written(measured[-1][1])}".replace("nan", "?"), {"stroke_dasharray": dashes}
        room = 34 + 0.5 * SMALL * len(said)
        x, y = (x, y) if x + room < 238 else (4, y + 14)
        key = line(x, y - 4, x + 16, y - 4, stroke="currentColor", stroke_width=2, **look)
        drawn.parts += [drawn.curve(shown, said, 3, **look), key + text(x + 20, y, said, "start")]
        x += room
    return drawn.finish(230, MAPS_TOP + MAP_SIDE + 2)


def measured_curves(state):
    """The accuracy by step, or the loss by step where the honest loss is to be compared with it."""
    measured, last = state.measured, next(end for end in STEP_ENDS if state.step <= end)
    if state.task != NEXT:
        right = {"new examples": [(each.step, each.accuracy) for each in measured]}
        right["training"] = [(each.step, each.right) for each in measured]
        return draw_curves("accuracy by step", right, in_percent, last, 1, state.learned)
    losses = {"new text": [(each.step, each.held_loss) for each in measured]}
    losses["training"] = [(each.step, each.loss) for each in measured]
    losses["can't look ahead"] = [(each.step, each.loss) for each in state.honest]
    most = max((loss for curve in losses.values() for _, loss in curve if math.isfinite(loss)), default=1)
    high = next(end for end in (3, 6, *(12 * 2**n for n in range(50)), most) if most <= end)
    return draw_curves("loss by step (nats)", losses, in_nats, last, high)
