"""What the explorers of lessons 1 and 2 say and draw, recomputed with plain torch and by hand."""

import pytest
import torch
from explorer_words import (
    BLUE,
    GREY,
    TOKENS,
    X,
    bits,
    each,
    frames,
    read,
    shown,
    strongest,
    tables,
    told,
    trees,
    words,
)
from torch import nn

from attention_helpers import Sentence, explorers
from attention_helpers.plots import ABOVE, BELOW

SCORES = [  # x · x is 1.4950 for "journey" and 1.4754 with "starts"; exp(1.96) : 1 = 0.88 : 0.12 at temperature 0.01
    ({}, "“journey” reads itself most: 0.24, where equal weights would be 0.17"),
    ({"query": 2}, "“starts” reads “journey” most: 0.24, where equal weights would be 0.17"),
    ({"temperature": 0.01}, "“journey” reads itself most: 0.88, where equal weights would be 0.17"),
    ({"temperature": 2}, "“journey” reads itself and “starts” most: 0.20, where equal weights would be 0.17"),
    ({"query": 5, "temperature": 0.01}, "“step” reads almost only “journey”: 0.93"),
    ({"query": 4, "temperature": 0.05}, "“one” reads “starts” most: 0.45, where equal weights would be 0.17"),
    ({"temperature": 10}, "“journey” reads all 6 tokens nearly alike: 0.16 to 0.17"),
    ({"temperature": 100}, "“journey” reads all 6 tokens nearly alike: 0.17 each"),
]


@pytest.mark.parametrize(("state", "said"), SCORES)
def test_scores_in_words(state, said):
    e, query, temperature = shown("ScoresExplorer", **state), state.get("query", 1), state.get("temperature", 1)
    scores = (X @ X.T)[query]
    weights = torch.softmax(scores.double() / temperature, dim=-1)
    assert e.said == said
    low, high = scores.min() / temperature, scores.max() / temperature
    assert read(e) == (
        {
            "scores" + f" ÷ {temperature:g}" * (temperature != 1): f"from {low:.3g} to {high:.3g}",
            "entropy": f"{bits(weights):.2f} bits of at most 2.58",
        },
        set(),
    )
    assert e.message.value == ""
    assert e.alt == (
        f"Query {TOKENS[query]}. Scores: {each(TOKENS, scores)}. Weights at temperature {temperature:g}: "
        f"{each(TOKENS, weights)}. Context vector: {', '.join(f'{entry:.2f}' for entry in weights @ X.double())}."
    )


@pytest.mark.parametrize("query", [0, 1, 5])
def test_scores_in_a_picture_of_one_hue_with_every_number(query):
    e = shown("ScoresExplorer", query=query, temperature=0.3)
    table, columns, vectors = trees(e)
    weights = torch.softmax((X @ X.T) / 0.3, dim=-1)
    [cells] = map(told, tables(table))
    for (says, cell), i, j in zip(cells, *torch.ones(6, 6).nonzero(as_tuple=True), strict=True):
        assert says == f"{TOKENS[i]} reads {TOKENS[j]}: {weights[i, j]:.4f}"
        assert float(cell.get("fill-opacity")) == pytest.approx(min(1, 1.5 * weights[i, j].item()), abs=0.01)
    assert {group.get("fill") for group in tables(table)} == {BLUE}
    [(_, y, width, height)] = frames(table)
    assert (y, width, height) == pytest.approx((query * 244 / 6, 244, 244 / 6), abs=0.1)
    assert {"0.67", "or more", "0"} <= set(words(table))
    score = [f"{TOKENS[j]}, score: {(X @ X.T)[query, j]:.4f}" for j in range(6)]
    weight = [f"{TOKENS[j]}, weight: {weights[query, j]:.4f}" for j in range(6)]
    assert [says for says, _ in told(columns)] == score + weight
    assert {f"{weights[query, j]:.2f}" for j in range(6)} <= set(words(columns))
    assert {bar.get("fill") for _, bar in told(columns)} == {BLUE}
    entries = {"embedding": (X[query], GREY), "context": (weights[query] @ X, BLUE)}
    assert {says: bar.get("fill") for says, bar in told(vectors)} == {
        f"entry {n}, {name}: {numbers[n]:.4f}": colour for name, (numbers, colour) in entries.items() for n in range(3)
    }
    assert {f"{number:.2f}" for numbers, _ in entries.values() for number in numbers} <= set(words(vectors))


def test_bars_of_negative_scores_go_down_and_their_axis_holds_those_of_every_query():
    x = torch.tensor([[1.0, 0.0], [-2.0, 0.5]])  # scores: 1 and -2 for "a", -2 and 4.25 for "b"
    e = explorers.ScoresExplorer(Sentence(["a", "b"], x))
    [_, columns, _] = trees(e)
    bars = {says: shape for says, shape in told(columns) if "score" in says}
    down, up = (float(bars[f"{says}"].get("height")) for says in ("a, score: -2.0000", "b, score: 4.2500"))
    assert down / up == pytest.approx(2 / 4.25, rel=0.02)
    assert float(bars["a, score: -2.0000"].get("y")) == pytest.approx(
        float(bars["b, score: 4.2500"].get("y")) + up, abs=0.2
    )
    assert {"4.3", "-2"} <= set(words(columns))  # the axis, in tenths
    e.set(query=0)
    assert {"4.3", "-2"} <= set(words(trees(e)[1]))


def test_of_two_equal_words_only_the_query_is_itself():
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    assert explorers.ScoresExplorer(Sentence(["a", "a"], x)).said.startswith("“a” reads almost only itself")
    e = explorers.ScoresExplorer(Sentence(["a", "a"], x))
    e.set(query=0)
    assert e.said == "“a” reads “a” most: 0.88, where equal weights would be 0.50"  # softmax of 1 and 3


def scores_of(source, d_out, seed, qkv_bias):
    if source == "normal":
        queries, keys = torch.randn(2, 6, d_out, generator=torch.Generator().manual_seed(seed))
    else:
        torch.manual_seed(seed)
        queries, keys = (nn.Linear(3, d_out, bias=qkv_bias)(X).detach() for _ in range(2))
    return queries @ keys.T


QKV = [
    ({}, "Scores have variance 73: “one” reads almost only itself, 1.00", "none"),
    (
        {"scaling": True},
        "Scores ÷ √64 have variance 1.1: the largest weight is 0.57 (“one” reads itself)",
        "none",
    ),
    ({"d_out": 2}, "Scores have variance 1.3: the largest weight is 0.63 (“one” reads itself)", "none"),
    ({"d_out": 8, "seed": 47}, "Scores have variance 3.8: “journey” reads almost only “one”, 0.92", "none"),
    (
        {"source": "sentence", "d_out": 2, "scaling": True},
        "Scores ÷ √2 have variance 0.0075: every row of weights stays nearly even, at most 0.20",
        "18",  # three matrices of 3 x 2
    ),
    (
        {"source": "sentence", "d_out": 48, "seed": 3, "qkv_bias": True},
        "Scores have variance 0.52: the largest weight is 0.31 (“Your” reads “with”)",
        "576",  # 3 x (3 + 1) x 48
    ),
    (
        {"source": "sentence", "d_out": 48, "seed": 3},
        "Scores have variance 0.23: the largest weight is 0.41 (“Your” reads “one”)",
        "432",
    ),
]


@pytest.mark.parametrize(("state", "said", "parameters"), QKV)
def test_scaling_in_words(state, said, parameters):
    e = shown("QKVExplorer", **state)
    full = {"source": "normal", "d_out": 64, "seed": 789, "scaling": False, "qkv_bias": False} | state
    assert e.values == full
    scaling, scores = full.pop("scaling"), scores_of(**full)
    divided = scores / full["d_out"] ** 0.5 if scaling else scores
    weights = torch.softmax(divided, dim=-1)
    before = f" = {scores.var():.4f} / {full['d_out']}" if scaling else ""
    assert e.said == said
    normal = full["source"] == "normal"
    assert read(e) == (
        {
            "variance entering softmax": f"{divided.var():.4f}{before}",
            "mean entropy": f"{bits(weights).mean():.2f} bits of at most 2.58",
            "parameters": parameters,
        },
        {"qkv_bias"} if normal else set(),
    )
    assert ("qkv_bias" in e.message.value) == normal
    assert e.alt == (
        f"Scores from {scores.min():.2f} to {scores.max():.2f}. Largest weight of each row: {strongest(weights)}. "
        f"Mean entropy {bits(weights).mean():.2f} bits."
    )


def test_scaling_in_a_picture_whose_signs_need_no_colour():
    e = shown("QKVExplorer", scaling=True)
    scores = scores_of("normal", 64, 789, False)
    weights = torch.softmax(scores / 8, dim=-1)
    left, right = trees(e)
    [cells], [shares] = map(told, tables(left)), map(told, tables(right))
    for (says, cell), i, j in zip(cells, *torch.ones(6, 6).nonzero(as_tuple=True), strict=True):
        assert says == f"{TOKENS[i]} meets {TOKENS[j]}: {scores[i, j]:.4f}"
        assert cell.get("fill") == (ABOVE if scores[i, j] > 0 else BELOW)
        assert float(cell.get("fill-opacity")) == pytest.approx((scores[i, j].abs() / 20.7163).item(), abs=0.01)
    assert {f"{score:.2f}" for score in scores.flatten()} <= set(words(left))
    assert {"21", "0", "-21"} <= set(words(left))
    assert [float(cell.get("fill-opacity")) for _, cell in shares] == pytest.approx(
        (1.5 * weights).clamp(max=1).flatten().tolist(), abs=0.01
    )
    assert {"0.67", "or more"} <= set(words(right))
    bars = [(says, bar) for says, bar in told(right) if "entropy" in says]
    assert [says for says, _ in bars] == [
        f"{token}, entropy: {row:.4f} bits" for token, row in zip(TOKENS, bits(weights), strict=True)
    ]
    even = 114  # pixels, for log2(6) bits
    assert [float(bar.get("width")) for _, bar in bars] == pytest.approx(
        (even * bits(weights) / torch.tensor(6.0).log2()).tolist(), abs=0.1
    )
    assert [float(bar.get("y")) for _, bar in bars] == pytest.approx(
        [26 + (n + 0.2) * 230 / 6 for n in range(6)], abs=0.1
    )  # each beside its row of the map
    assert {bar.get("fill") for _, bar in bars} == {GREY}
    assert {f"{row:.2f}" for row in bits(weights)} | {"even: 2.58"} <= set(words(right))
