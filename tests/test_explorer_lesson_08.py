"""Notebook 08's explorer: what a layer of a size costs, with numbers worked out by hand."""

import pytest
from explorer_page import SVG, check_claim, figures, readouts, told, tree_of, words_of

from attention_helpers import explorers
from attention_helpers.explorers.base import Markup

MEASURED = {"split": {512: 42_467_328}, "fused": {512: 7_864_320, 2048: 31_457_280}}
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


@pytest.fixture
def cost():
    return explorers.CostExplorer(MEASURED)


COSTS = [  # state, and figures of headline, readouts and alt text; FLOPs: 2n(4w² + 2nw) at width w
    (
        {"num_tokens": 512},
        "At 512 tokens the scores of 12 heads take 12.6 MB, keys and values 3.1 MB",
        "3.22 25% 12 512 512 4 12.6 2 512 768 4 3.1 0.5 42.5 7.9",
        "512 tokens, num_heads 12, num_kv_heads 12 … width of 768 … 3.22 billion FLOPs, 0.25 of them for scores and "
        "context. … 4 bytes the scores … 12.6 MB, keys and values 3.1 MB. Measured peak: split 42.5 MB, fused 7.9 MB.",
    ),
    (
        {"num_tokens": 32, "num_heads": 1},  # keys and values take more than scores
        "At 32 tokens keys and values take 196.6 kB, the scores of 1 head 4.1 kB",
        "0.15 2% 1 32 32 4 4.1 2 32 768 4 196.6 0.5",
        "32 tokens, num_heads 1, num_kv_heads 1 … 768 … 0.15 … 0.02 … 4 bytes … 4.1 kB, … values 196.6 kB.",
    ),
    (  # q 68.72e9, k and v 34.36e9, out_proj 68.72e9, scores and context 68.72e9 together
        {"num_tokens": 2048, "width": 4096, "num_heads": 32, "num_kv_heads": 8, "bytes": 2},
        "At 2,048 tokens the scores of 32 heads take 268.4 MB, keys and values 8.4 MB",
        "240.52 29% 32 2,048 2,048 2 268.4 2 2,048 1,024 2 8.4 4",
        "2,048 tokens, num_heads 32, num_kv_heads 8 … width of 4,096 … 240.52 … 0.29 … 2 bytes … 268.4 MB, … 8.4 MB.",
    ),
]


@pytest.mark.parametrize(("state", "said", "rows", "alt"), COSTS)
def test_figures_of_a_cost(cost, state, said, rows, alt):
    cost.set(**state)
    check_claim(cost.said, said)
    assert figures(" ".join(readouts(cost).values())) == rows.split()
    about = "FLOPs … billion; … of them, for scores and context, grow with num_tokens squared"
    about += " scores … × … × … × … bytes = … keys and values 2 × … × … × … bytes ="
    about += " … decoding … FLOPs per byte of keys and values…" + " measured peak …" * ("peak" in alt)
    check_claim(" ".join(map(" ".join, readouts(cost).items())), about)
    check_claim(cost.alt, alt)


def chart_of(explorer):
    """Curves, and points by name, as {tokens: bytes}: read with the two axes, both logarithmic."""
    tree = tree_of(explorer)
    ends = {text.text: (float(text.get("x")), float(text.get("y"))) for text in tree.iter(f"{SVG}text")}
    (_, low), (_, high), (left, _), (right, _) = (ends[name] for name in ("1 kB", "1 GB", "32", "8,192"))

    def spot(x, y):
        tokens = 32 * 2 ** (8 * (float(x) - left) / (right - left))
        return round(tokens), 10 ** (3 + 6 * (low - 4 - float(y)) / (low - high))

    curves, points = {}, {}
    for words, shape in told(tree):
        if shape.tag == f"{SVG}circle":
            points.setdefault(words.partition(",")[0], []).append(spot(shape.get("cx"), shape.get("cy")))
        elif shape.tag == f"{SVG}path":
            curves[words] = dict(spot(*each.split()) for each in shape.get("d")[1:].split("L"))
    return curves, {name: dict(spots) for name, spots in points.items()}


def close(expected):
    return {n: pytest.approx(size, rel=0.02) for n, size in expected.items()}  # a twentieth of a pixel is 1%


def test_the_curves_are_those_of_the_sizes_that_are_set(cost):
    cost.set(num_tokens=64, width=4096, num_heads=32, num_kv_heads=8, bytes=2)
    curves, points = chart_of(cost)
    assert curves["scores of 32 heads"] == close({n: 32 * n * n * 2 for n in LENGTHS})
    assert curves["keys and values"] == close({n: 2 * n * 8 * 128 * 2 for n in LENGTHS})
    assert points == {}
    check_claim(Markup(cost.message.value), "No measured points: … with 12 heads, width 768, float32.")
    [x] = [float(text.get("x")) for text in tree_of(cost).iter(f"{SVG}text") if text.text == "64"]
    assert f"M{x:.1f} " in cost.svg  # the line at the length that is set
    cost.measured = {}
    cost.set(num_heads=1)
    check_claim(Markup(cost.message.value), "8 doesn't divide 1 head: 1 KV head instead.")  # and no points are missed


def test_what_was_measured_lies_on_its_formula(cost):
    curves, points = chart_of(cost)
    assert points == {f"{name} layer's peak": close(there) for name, there in MEASURED.items()}
    assert {"share of the FLOPs", "memory of one layer, points measured", "num_tokens"} <= {*words_of(tree_of(cost))}
    assert curves["split layer's peak"] == close({512: 3 * 12 * 512 * 512 * 4 + 3 * 512 * 768 * 4})
    assert curves["fused layer's peak"] == close({n: 5 * n * 768 * 4 for n in (512, 1024, 2048)})
    assert cost.message.value == ""


def test_heads_keep_their_own_keys_until_some_are_shared(cost):
    def state():
        return tuple(cost.values[name] for name in ("width", "num_heads", "num_kv_heads"))

    assert cost.controls["num_heads"].options[-1] == 64  # no more, though 96 divides 768 too
    cost.controls["num_heads"].value = 48
    assert state() == (768, 48, 48)
    cost.controls["width"].value = 1600  # 1600 / 48 isn't whole, 1600 / 40 is
    assert state() == (1600, 40, 40)
    heads = "48 doesn't divide the width 1600: 40 heads instead. No measured points: … 12 heads, width 768, float32."
    check_claim(Markup(cost.message.value), heads)
    cost.controls["width"].value = 768
    assert state() == (768, 48, 48)
    cost.controls["num_kv_heads"].value = 4
    cost.controls["num_heads"].value = 6
    assert state() == (768, 6, 3)
    check_claim(Markup(cost.message.value), "4 doesn't divide 6 heads: 3 KV heads instead. No measured points: …")
    cost.set(num_heads=24, num_kv_heads=24)
    cost.set(num_heads=2)
    assert state() == (768, 2, 2)
    assert list(cost.controls["num_kv_heads"].options) == [1, 2]
    assert "scores of 2 heads" in cost.said
    cost.set(num_heads=48, num_kv_heads=4)
    cost.controls["width"].value = 1600
    check_claim(Markup(cost.message.value), heads)
