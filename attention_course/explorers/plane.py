"""The plane of queries and keys: where each letter's query and key are in one head, and which key a query reads."""

import math
from typing import NamedTuple

import torch

from attention_course.plots import head_colour

from .svg import SMALL, line, number, tag, text
from .svg_maps import frame

OUTER, INNER = 0.86, 0.58  # where the outermost query and key are, in halves of a side
TALKATIVE = 150  # pixels of a side, from which on queries have names, too


class Plane(NamedTuple):
    """One head's queries and keys of n letters or tokens, and the query that is asked."""

    names: list
    keys: torch.Tensor  # (n, head_dim)
    queries: torch.Tensor  # (n, head_dim), or (0, head_dim) to draw none
    asked: torch.Tensor  # (head_dim,)
    weights: list  # n numbers: the weight that the asked query gives to each key; None where there's no such token
    last: tuple | None = None  # queries and keys at the last step, which set the directions and the scales


def by_letter(letters, tokens, weights):
    """The weight that the pair with each letter gets, None for letters without one; the last token is the question."""
    row = {token[0]: weight for token, weight in zip(tokens[:-1], weights.tolist(), strict=False)}
    return [row.get(letter) for letter in letters]


def directions(keys):
    """The two directions, (head_dim, 2), in which keys (n, head_dim) spread most; for up to two entries, these.

    They're turned within their plane so that the first key is at the right and the second one above it: which two
    vectors span a plane is arbitrary, and differs between machines.
    """
    keys = keys.double()
    if keys.shape[1] <= 2:
        return torch.eye(keys.shape[1], 2, dtype=torch.double)
    spread = keys - keys.mean(dim=0)
    first = torch.arange(keys.shape[1], 0, -1).double().diag()  # of directions with equal spread, the first entries
    squares = spread.T @ spread
    plane = torch.linalg.eigh(squares + 1e-9 * squares.trace() * first).eigenvectors[:, -2:]  # (head_dim, 2)
    first, second = (keys[:2] - keys.mean(dim=0)) @ plane
    right = first / first.norm().clamp(min=1e-9)
    up = torch.stack((-right[1], right[0]))
    return plane @ torch.stack((right, up * (1.0 if second @ up >= 0 else -1.0)), dim=1)


def directions_of(keys, asked):
    """Two directions, (head_dim, 2): to the right the one in which keys spread most across the asked query, up its own.

    So a key's height is its score. For up to two entries, these.
    """
    if keys.shape[1] <= 2:
        return directions(keys)
    up, spread = asked.double() / asked.double().norm().clamp(min=1e-9), (keys - keys.mean(dim=0)).double()
    spread = spread - (spread @ up)[:, None] * up
    right = torch.linalg.eigh(spread.T @ spread).eigenvectors[:, -1]
    return torch.stack((right * (1.0 if spread[0] @ right >= 0 else -1.0), up), dim=1)


def axes_and_scales(plane, side):
    """The two directions, (head_dim, 2), to the right and up, and the pixels per unit of keys and of queries."""
    queries, keys = plane.last or (torch.cat((plane.queries, plane.asked[None])), plane.keys)
    axes = directions(keys) if len(plane.queries) else directions_of(keys, queries[-1])
    furthest = [(vectors.double() @ axes).norm(dim=1).max().clamp(min=1e-9) for vectors in (keys, queries)]
    inner = OUTER if keys.shape[1] == 1 else INNER
    return axes, [side / 2 * share / far for share, far in zip((inner, OUTER), furthest, strict=True)]


def place_points(plane, side):
    """Where the keys, the queries and the asked query are, in pixels from the middle, to the right and up."""
    axes, scales = axes_and_scales(plane, side)
    every = ((plane.keys, scales[0]), (plane.queries, scales[1]), (plane.asked[None], scales[1]))
    return [(vectors.double() @ axes * scale).clamp(-side / 2, side / 2).tolist() for vectors, scale in every]


def drag(moved, point, plane, side, kind, n, at, by):
    """How far points are from their own places, once a hand has one at a place, has moved it by some pixels, or let go.

    moved: by point, two numbers in its own units, to the right and up; point: the name there of the n-th key or query
    of the plane. It stays in the plane, and on the line if that's all there is. at: None puts it back.
    """
    others = {each: place for each, place in moved.items() if each != point}
    if at is None:
        return others
    axes, scales = axes_and_scales(plane, side)
    scale = scales[kind != "key"]
    held = {"key": plane.keys, "query": plane.queries, "asked": plane.asked[None]}[kind][n]
    now = held.double() @ axes
    if by:
        at = side / 2 + now[0] * scale + by[0], side / 2 - now[1] * scale + by[1]
    x, y = (min(max(float(each), 0.0), side) - side / 2 for each in at)
    aim = torch.tensor((x, 0.0 if axes.shape[0] == 1 else -y)) / scale
    return others | {point: tuple((aim - now + torch.tensor(moved.get(point, (0.0, 0.0)))).tolist())}


def draw_plane(plane, head, side, grips=("", "", "")):
    """One Plane as SVG in its head's colour, the origin in the middle: queries are dots, keys squares.

    If a head is one wide, it's a line, with queries above it and keys below. Where only one query is drawn, its arrow
    is equally long in every head, and names avoid all marks. grips: what a key, a query and the arrow are called that
    a hand can move, with {} for their place.
    """
    keys, queries, [asked] = place_points(plane, side)
    middle, flat, alone, colour = side / 2, plane.keys.shape[1] == 1, not queries, head_colour(head)
    row = 14 if flat else 0  # how far marks are from the line
    keys = [(middle + x, middle - y + row) for x, y in keys]
    end, *queries = ((middle + x, middle - y - row) for x, y in [asked, *queries])
    parts, taken = [line(0, middle, side, middle), frame(0, 0, side, side, 0.5)], []
    parts += [] if flat else [line(middle, 0, middle, side)]
    if alone and not flat:
        taken += [(*spot, 7, 7) for spot in keys]
        taken += [(*(middle + (at - middle) * n / 8 for at in end), 3, 3) for n in range(9)]
    each = [*zip(plane.names, keys, plane.weights, strict=True)]
    parts += [draw_mark(*key, colour, grips[0].format(n)) for n, key in enumerate(each)]
    if flat and side < TALKATIVE:  # a short line only has room for the names of its ends
        each = [each[int(end)] for end in sorted({plane.keys.argmin().item(), plane.keys.argmax().item()})]
    each = sorted(each, key=lambda key: -(key[2] or 0)) if alone else each
    named = [(name, spot, (0, 1) if flat else outward(spot, middle, 1 if alone else -1)) for name, spot, _ in each]
    for n, (name, spot) in enumerate(zip(plane.names, queries, strict=False)):
        parts.append(draw_mark(name, spot, "query", colour, grips[1].format(n)))
        if side >= TALKATIVE:
            named.append((name, spot, (0, -1) if flat else outward(spot, middle, 1)))
    names = [write_name(*each, side, 9 if flat else 2 - alone, taken) for each in named]
    tip = tag("circle", says="the asked query", cx=end[0], cy=end[1], r=9, fill="transparent")
    tip = tag("g", tip, data_touch=grips[2], data_drag="") if grips[2] else ""
    return "".join([*parts, arrow((middle, middle - row), end, colour), tip, *names])


def draw_mark(name, spot, weight, colour, grip=""):
    """A query as a dot; a key as a square as full as its weight, and pale if there's no such token; with its grip."""
    if weight == "query":
        mark = tag("circle", says=f"query of {name}", cx=spot[0], cy=spot[1], r=3, fill=colour)
    else:
        says = f"key of {name}" + (", not here" if weight is None else f": weight {number(weight)}")
        place = {"x": spot[0] - 3.5, "y": spot[1] - 3.5, "width": 7, "height": 7}
        look = {"fill_opacity": f"{min(weight or 0, 1):.2f}", "stroke_opacity": 0.3 if weight is None else 1}
        mark = tag("rect", says=says, fill=colour, stroke=colour, **place, **look)
    hold = tag("circle", cx=spot[0], cy=spot[1], r=9, fill="transparent")
    return tag("g", hold + mark, data_touch=grip, data_drag="") if grip else mark


def outward(spot, middle, sign):
    """The direction from the middle to a point, or back, as a step on the page; to the right if it's in the middle."""
    x, y = spot[0] - middle, spot[1] - middle
    length = math.hypot(x, y)
    return (sign * x / length, sign * y / length) if length > 1 else (1, 0)


def write_name(name, point, way, side, most, taken):
    """A name next to a point (x, y), this way, at most so many lines from it, or else to a side; "" without room.

    taken: the rectangles of marks and names, to which this one is added.
    """
    wide, (right, down) = 4 + 0.5 * SMALL * len(name), way
    steps = [*((n * right, n * down) for n in range(1, most + 1)), (-down, right), (down, -right)]
    steps += [(a * right - b * down, a * down + b * right) for a in (0.7, -0.7) for b in (0.7, -0.7)]
    for right, down in steps:
        at = point[0] + 11 * right, point[1] + 11 * down
        inside = all(wide / 2 <= place <= side - wide / 2 for place in at)
        if inside and all(abs(at[0] - a) > (wide + w) / 2 or abs(at[1] - b) > (10 + h) / 2 for a, b, w, h in taken):
            taken.append((*at, wide, 10))
            return text(at[0], at[1] + 4, name)
    return ""


def arrow(start, end, colour):
    (x, y), length = end, math.dist(start, end) or 1
    u, v = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    head = "".join(f"M{x:.1f} {y:.1f}l{8 * (-u + s * v / 2):.1f} {8 * (-v - s * u / 2):.1f}" for s in (-1, 1))
    path = f"M{start[0]:.1f} {start[1]:.1f}L{x:.1f} {y:.1f}{head}"
    return tag("path", d=path, stroke=colour, stroke_width=2, fill="none", pointer_events="none")
