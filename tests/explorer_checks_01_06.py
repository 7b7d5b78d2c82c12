"""What the explorers of lessons 1 to 6 must show in any state, recomputed with the layers or with torch's functions."""

import numpy as np
import pytest
import torch
from explorer_page import (
    check_maps,
    figures,
    frames,
    near,
    numbers,
    paths,
    tips,
    told,
    tree_of,
)
from made import SENTENCE
from torch.testing import assert_close

from attention_course.explorers import dropout
from attention_course.plots import HEAD_COLOURS
from attention_helpers import (
    MultiHeadAttention,
    attention_maps,
    causal_mask,
    load_sentence,
)
from attention_helpers.dropout import draw_dropout_from

TOKENS, X = SENTENCE.tokens, SENTENCE.embeddings
BLUE, GREY = HEAD_COLOURS[0], "#767676"


def bits(weights):
    """The entropy of each row."""
    return -(weights * weights.clamp(min=1e-45).log2()).sum(-1)


def check_scores(e, query, temperature, sentence):
    state, tokens = e.arrays, sentence.split(", ")
    x = X[[TOKENS.index(token) for token in tokens]]
    assert torch.equal(state.scores, x @ x.T)
    assert_close(state.weights, torch.softmax(x @ x.T / temperature, dim=-1), atol=1e-5, rtol=1e-5)
    assert_close(state.context, state.weights @ x)
    scores, weights = state.scores[query], state.weights[query]
    check_maps(e, state.weights[None], tokens)
    [(_, y, _, height)] = frames(tree_of(e), "3")
    assert y / height == pytest.approx(query, abs=0.02)
    for kind, values in ((", score: ", scores), (", weight: ", weights)):
        assert tips(e, kind) == near(values, off=1e-4)
        long = [float(bar.get("height")) for words, bar in told(tree_of(e)) if kind in words]
        assert long == near(77 * values / (1.5 if kind == ", score: " else 1), off=0.06)
    assert tips(e, ", embedding: ") == near(x[query], off=1e-4)
    assert tips(e, ", context: ") == near(state.context[query], off=1e-4)
    assert {shape.get("fill") for words, shape in told(tree_of(e)) if ", context: " in words} == {BLUE}  # as weights
    assert f"{weights.max():.2f}" in figures(e.said)


def check_qkv(e, made):
    state, (tokens, x) = e.arrays, load_sentence("lookup")
    weights, values, queries, keys = torch.softmax(x @ x.T, dim=-1), x, x, x
    if made != "embeddings":
        queries, keys = x[:, :3], x @ (10 * torch.eye(7)[:, :3] - 10 * (made == "matrices") * torch.eye(7)[:, 6:])
        weights, values = torch.softmax(queries @ keys.T, dim=-1), x[:, 3:6]
    assert_close(state.weights, weights)
    assert_close(state.read, (weights @ values)[3])
    check_maps(e, weights[None], tokens)
    cells = [words.rpartition(": ")[0] for words, _ in told(tree_of(e)) if ", entry " in words]
    assert cells == 2 * [f"{token}, entry {entry}" for token in tokens for entry in "ABC123?"[: queries.shape[1]]]
    assert tips(e, ", entry ") == near(queries, keys, off=1e-4)
    assert [y / height for _, y, _, height in frames(tree_of(e), "3")] == near(3.0, off=0.02)
    assert tips(e, ", read: ") == near(state.read, off=1e-4)


def check_scaling(e, d_k, seed, scaling):
    state = e.arrays
    queries, keys = torch.randn(2, 6, d_k, generator=torch.Generator().manual_seed(seed))
    assert_close(state.scores, queries @ keys.T)
    scale = d_k**-0.5 if scaling else 1.0
    assert torch.equal(state.weights, torch.softmax(state.scores * scale, dim=-1))
    variance, entropy = (state.scores * scale).var(), bits(state.weights)
    check_maps(e, state.scores[None], "123456", "query {} meets key {}", limit=state.scores.abs().max())
    check_maps(e, state.weights[None], "123456", "query {} looks at key {}")
    assert tips(e, ", entropy: ") == near(entropy, off=1e-3)
    long = [float(bar.get("width")) for words, bar in told(tree_of(e)) if ", entropy: " in words]
    assert long == near(74 * entropy / np.log2(6), off=0.1)  # the room up to an even row's
    assert f"{variance:.2g}" in figures(e.said)
    assert f"{state.weights.max():.2f}" in figures(e.said)


def check_mask(e, mask, place):
    state, pair = e.arrays, e.arrays.tokens.index("B 1")
    future = causal_mask(4) & mask
    row = torch.full((4,), 0.0031)
    row[pair] = 0.9908
    if guesses := mask and pair > place:
        row = (torch.arange(4) <= place) / (place + 1)
    assert state.tokens[place] == "B ?"
    assert state.weights[place].tolist() == near(row, off=1e-4)
    assert_close(state.weights.sum(dim=-1), torch.ones(4))
    check_maps(e, state.weights[None], state.tokens, hidden=future)
    check_maps(e, state.scores[None], state.tokens, "score of {} for {}", hidden=future, limit=10 / 3**0.5, bar=False)
    assert [y / height for _, y, _, height in frames(tree_of(e), "3")] == near([place, place], off=0.02)
    assert tips(e, ", read: ") == near(state.read, off=1e-4)
    assert numbers(e.said)[-1:] == near(row[0] if guesses else row[pair])


def check_dropout(e, step, p):
    """What is stored is shown; test_stored_models.py trains it again."""
    with np.load(dropout.RUNS_FILE) as runs:
        losses, maps, always_0 = (torch.from_numpy(runs[name]) for name in ("losses", "maps", "always_0"))
    run, place = dropout.RATES.index(p), step // 5
    losses = losses[run, : place + 1]
    state, days = e.arrays, [f"day {n}" for n in range(1, 7)]
    assert torch.equal(state.losses, losses)
    assert torch.equal(state.weights, maps[run, place])
    check_maps(e, state.weights[None], days, hidden=causal_mask(6))
    assert state.always_0 == always_0
    assert numbers(e.said) == near(step, p, losses[-1])
    gone = int(state.dropped[~causal_mask(6)].sum())
    assert sum(paths(tree_of(e), stroke_width="1.5")) == gone
    assert abs(gone / 21 - p) <= (p > 0) * 0.35  # by chance, but never without dropout


def check_layer(e, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    state, future, tokens = e.arrays, causal_mask(6), TOKENS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = draw_dropout_from(MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias))
        torch.manual_seed(seed)
        context = layer.train(training)(X[None])[0]
    assert_close(state.result, context)
    assert_close(state.maps, attention_maps(layer.eval(), X[None])[0][0])
    assert not state.shown[:, future].any()
    assert not state.influence[future].any()
    kept = state.maps / (1 - dropout if training else 1)
    assert_close(state.shown, torch.where(state.shown == 0, 0.0, kept))
    crosses = sum(paths(tree_of(e), stroke_width="1.5"))
    assert crosses == ((state.shown == 0) & (state.maps > 0)).sum()
    if not (training and dropout):
        assert not crosses
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert state.size.endswith(f", {parameters} parameters")
    assert {verdict.sign for verdict in state.verdicts.values()} == {"✓"}
    assert " MultiHeadAttention returns the same numbers" in state.verdicts["course"].words
    check_maps(e, state.shown, tokens, hidden=future, limit=1)
    look = {"limit": state.influence.max(), "colours": [GREY], "bar": False}
    check_maps(e, state.influence[None], tokens, "perturbing {1} moves {0} by", **look)
