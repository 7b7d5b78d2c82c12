"""What the explorers of lessons 3 and 4 say and draw, recomputed with plain torch and by hand."""

import pytest
import torch
from explorer_words import BLUE, GREY, TOKENS, X, frames, paths, read, shown, strongest, tables, told, trees, words
from torch import nn

from attention_helpers.plots import ABOVE
from attention_helpers.probes import perturbation_influence

HIDE = torch.ones(6, 6).triu(1).bool()


def context_by(method, x):
    """Context vectors and weights of the layer of seed 123, masked by a method, for x (num_tokens, 3)."""
    torch.manual_seed(123)
    queries, keys, values = (nn.Linear(3, 2, bias=False)(x).detach() for _ in range(3))
    scores, hide = queries @ keys.T / 2**0.5, HIDE[: len(x), : len(x)]
    weights = torch.softmax(scores if method in ("leaky", "none") else scores.masked_fill(hide, -torch.inf), dim=-1)
    return weights @ values, weights


def influence_by(method, x, amount=1.0):
    return perturbation_influence(lambda x: context_by(method, x)[0], x, amount)


MASK = [
    ({}, "In the leaky layer, “Your” moves by 0.055 when “starts” changes: it reads the future"),
    ({"method": "none"}, "Without a mask, “Your” moves by 0.055 when “starts” changes: it reads the future"),
    ({"method": "-inf"}, "With -inf before softmax, no row before “starts” moves when it changes: no leak found"),
    (
        {"method": "renormalise", "poked": 5, "amount": 3.0},
        "With renormalised weights, no row before “step” moves when it changes: no leak found",
    ),
    (
        {"amount": 0.1, "poked": 5},
        "In the leaky layer, “with” moves by 0.0054 when “step” changes: it reads the future",
    ),
    (
        {"poked": 1, "method": "none", "num_tokens": 4},
        "Without a mask, “Your” moves by 0.082 when “journey” changes: it reads the future",
    ),
    ({"poked": 0}, "“Your” is the first token: every row may read it, so moving it shows no leak"),
    ({"poked": 0, "num_tokens": 1}, "“Your” is the first token: every row may read it, so moving it shows no leak"),
]
METHODS = {
    "-inf": "-inf, then softmax",
    "renormalise": "softmax, tril, renormalise",
    "leaky": "leaky: masked_fill thrown away",
    "none": "no mask",
}


@pytest.mark.parametrize(("state", "said"), MASK)
def test_masks_in_words(state, said):
    e = shown("MaskExplorer", **state)
    full = {"num_tokens": 6, "method": "leaky", "poked": 2, "amount": 1.0} | state
    assert e.values == full
    n, method, poked = full["num_tokens"], full["method"], full["poked"]
    chosen, correct = (influence_by(each, X[:n], full["amount"]) for each in (method, "-inf"))
    weights = context_by(method, X[:n])[1]
    assert e.said == said
    pairs, ahead = n * (n - 1) // 2, (weights * HIDE[:n, :n]).sum(-1)
    leaks = method in ("leaky", "none") and n > 1
    assert read(e) == (
        {
            "cells of the future that move": f"{pairs if leaks else 0} of {pairs}; with the correct mask 0",
            "weight on the future": f"up to {ahead.max():.2f} of a row, “{TOKENS[ahead.argmax()]}”"
            if leaks
            else "none",
        },
        set(),
    )
    assert ("both influence maps are the same" in e.message.value) == (method == "-inf")
    rows = zip(TOKENS[:n], chosen[:, poked], correct[:, poked], strict=True)
    assert e.alt == (
        f"{METHODS[method]}. Largest weight of each row: {strongest(weights)}. "
        f"Perturbing {TOKENS[poked]} by {full['amount']:.1f} moves the rows by "
        + ", ".join(f"{token} {move:.3f} (correct: {right:.3f})" for token, move, right in rows)
        + "."
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("num_tokens", "poked"), [(6, 2), (6, 5), (3, 0)])
def test_two_influence_maps_with_the_future_in_red_and_the_perturbed_column_framed(method, num_tokens, poked):
    e = shown("MaskExplorer", poked=poked, num_tokens=num_tokens, method=method)
    left, right = trees(e)
    assert {tree.get("height") for tree in (left, right)} == {"282"}  # for any number of tokens
    correct, chosen = map(told, tables(left))
    by_methods = [influence_by(each, X[:num_tokens]) for each in ("-inf", method)]
    low, high = sorted(each.max().item() for each in by_methods)
    limit = min(2 * low, high)
    for cells, moves in zip((correct, chosen), by_methods, strict=True):
        moves, opacity = moves.flatten().tolist(), [float(cell.get("fill-opacity")) for _, cell in cells]
        names = [(column, row) for row in TOKENS[:num_tokens] for column in TOKENS[:num_tokens]]
        told_of = [f"perturbing {column} moves {row} by: " for column, row in names]
        assert [says[: -len("0.0000")] for says, _ in cells] == told_of
        assert [float(says[-6:]) for says, _ in cells] == pytest.approx(moves, abs=1e-4)
        assert opacity == pytest.approx([min(1, move / limit) for move in moves], abs=0.01)
        assert {f"{move + 1e-7:.3f}" for move in moves} <= set(words(left))
    assert {group.get("fill") for group in tables(left)} == {GREY}
    assert f"{limit:.2g}" in words(left)
    assert ("or more" in words(left)) == (high > limit)
    side = 210 / num_tokens
    assert frames(left) == [pytest.approx((poked * side, 0, side, 210), abs=0.1)] * 2
    assert frames(right) == []
    border = [4 * (num_tokens - 1)] * 2  # a staircase and two sides, a stroke for each cell, of both maps
    assert paths(left, stroke=ABOVE) == border
    assert paths(left, stroke_opacity="0.3") == []
    hidden = num_tokens * (num_tokens - 1) // 2 if method in ("-inf", "renormalise") else 0
    assert len(paths(right, stroke_opacity="0.3")) == (hidden > 0)
    [weights] = map(told, tables(right))
    assert len(weights) == num_tokens**2 - hidden
    expected = context_by(method, X[:num_tokens])[1]
    expected = expected[~HIDE[:num_tokens, :num_tokens]] if hidden else expected.flatten()
    assert [float(says[-6:]) for says, _ in weights] == pytest.approx(expected.tolist(), abs=1e-4)
    full = min(1, 4 / num_tokens)
    assert [float(cell.get("fill-opacity")) for _, cell in weights] == pytest.approx(
        (expected / full).clamp(max=1).tolist(), abs=0.01
    )
    assert ("or more" in words(right)) == (num_tokens == 6)
    short = {"-inf": "-inf", "renormalise": "renormalised", "leaky": "leaky", "none": "no mask"}[method]
    assert {"correct: influence", f"{short}: influence", "future"} <= set(words(left))
    assert f"{short}: weights" in words(right)


@pytest.mark.parametrize("amount", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("method", ["-inf", "renormalise"])
def test_rounding_is_no_leak(method, amount):
    """Renormalised weights are right up to their last bits, which later tokens do move."""
    for poked in range(1, 6):
        e = shown("MaskExplorer", method=method, amount=amount, poked=poked)
        assert "no leak found" in e.said
        assert read(e)[0]["cells of the future that move"].startswith("0 of 15")


def test_perturbing_a_token_that_is_not_there_is_explained_over_the_dimmed_picture():
    e = shown("MaskExplorer", poked=3)
    before = e.svg
    e.controls["num_tokens"].value = 3
    assert "token 3 is not among the first 3: perturb an earlier one, or take more tokens" in e.message.value
    assert e.svg == before
    assert "attention-dimmed" in e.view._dom_classes
    e.controls["num_tokens"].value = 4
    assert e.message.value == ""
    assert "attention-dimmed" not in e.view._dom_classes


DROPOUT = [
    ({}, "One mask keeps 12 of 21 weights; the average of 100 is off by at most 0.08", set()),
    ({"draws": 1}, "One mask keeps 12 of 21 weights, each times 2.00: row sums go from 0.00 to 2.00", set()),
    (
        {"draws": 1, "p": 0.2},
        "One mask keeps 20 of 21 weights, each times 1.25: row sums go from 0.99 to 1.25",
        set(),
    ),
    (
        {"draws": 2, "p": 0.9, "seed": 7},
        "One mask keeps 3 of 21 weights; the average of 2 is off by at most 1.36",
        set(),
    ),
    ({"draws": 1000, "p": 0.3}, "One mask keeps 20 of 21 weights; the average of 1000 is off by at most 0.01", set()),
    ({"training": False}, "In eval(), nothing is dropped: every row still sums to 1", {"p", "seed", "draws"}),
    ({"p": 0.0}, "With p = 0, nothing is dropped: every row still sums to 1", {"seed", "draws"}),
]


def dropped(p=0.5, seed=123, training=True, draws=100):
    """The weights before dropout, which of them each draw keeps, and each draw's weights."""
    weights = context_by("-inf", X)[1]
    keep = torch.ones(draws, 6, 6)
    if training and p:
        chances = torch.rand(draws, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        keep = (chances < 1 - p).float()
    return weights, keep, weights * keep / (1 - p if training else 1)


@pytest.mark.parametrize(("state", "said", "greyed"), DROPOUT)
def test_dropout_in_words(state, said, greyed):
    e = shown("DropoutExplorer", **state)
    weights, keep, after = dropped(**state)
    sums, off = after.sum(-1), (after.mean(0) - weights).abs().max()
    kept = f"{int(keep[0][~HIDE].sum())} of 21"
    times = 1 / (1 - state.get("p", 0.5)) if state.get("training", True) else 1
    assert e.said == said
    assert read(e) == (
        {
            "row sums": f"{sums.min():.4f} to {sums.max():.4f}, mean {sums.mean():.4f}",
            "what one mask keeps": f"{kept} weights, each times {times:.2f}",
            "average against no dropout": f"at most {off:.4f} apart",
        },
        greyed,
    )
    assert all(name in e.message.value for name in greyed)  # it says why
    assert bool(e.message.value) == bool(greyed)
    assert e.alt == (
        f"One mask keeps {kept} weights. Row sums over all draws go from {sums.min():.2f} to {sums.max():.2f}, "
        f"with mean {sums.mean():.2f}. The average differs from the weights without dropout by at most {off:.2f}."
    )


@pytest.mark.parametrize("state", [{}, {"p": 0.9, "seed": 999}, {"training": False}, {"draws": 1, "seed": 5}])
def test_dropout_in_a_picture(state):
    e = shown("DropoutExplorer", **state)
    weights, keep, after = dropped(**state)
    past, lost = ~HIDE, int((1 - keep[0])[~HIDE].sum())
    first, second, sums = trees(e)
    names = [f"{TOKENS[i]} {{}} {TOKENS[j]}: " for i, j in past.nonzero().tolist()]
    drawn = [told(each) for each in (*tables(first), *tables(second))]
    verbs, values = ("reads", "keeps", "reads", "reads"), (weights, keep[0], after[0], after.mean(0))
    for cells, verb, table, full in zip(drawn, verbs, values, (2 / 3, 2, 2 / 3, 2 / 3), strict=True):
        assert [says[: -len("0.0000")] for says, _ in cells] == [name.format(verb) for name in names]
        assert [float(says[-6:]) for says, _ in cells] == pytest.approx(table[past].tolist(), abs=1e-4)
        assert [float(cell.get("fill-opacity")) for _, cell in cells] == pytest.approx(
            (table[past] / full).clamp(max=1).tolist(), abs=0.01
        )
    for tree in (first, second):
        assert len(paths(tree, stroke_opacity="0.3")) == 2  # each map's future is hatched
        assert paths(tree, stroke_width="1.5") == [lost] * (lost > 0)  # in the mask, and in the weights after it
    assert [group.get("fill") for group in tables(first)] == [BLUE, GREY]
    assert {group.get("fill") for group in tables(second)} == {BLUE}
    assert {"0.67", "or more"} <= set(words(second))
    assert "one mask: 1 is kept" in words(first)
    assert {"weights after it", f"average of {len(after)} mask{'s' * (len(after) > 1)}"} <= set(words(second))
    counts = torch.histc(after.sum(-1).double() + 1e-6, 11, 0, 2.75)  # bins of 0.25 up to 2.75
    counts = torch.cat([counts, (after.sum(-1) >= 2.75 - 1e-6).sum()[None]]) / after.sum(-1).numel()
    ends = [f"{n / 4:g}" for n in range(11)] + ["2.75+"]
    assert [says for says, _ in told(sums)] == [f"{end}, share: {n:.4f}" for end, n in zip(ends, counts, strict=True)]
    assert {f"{n:.2f}" for n in counts} <= set(words(sums))
    assert {bar.get("fill") for _, bar in told(sums)} == {GREY}
