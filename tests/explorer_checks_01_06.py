"""What the explorers of lessons 1 to 6 must show in any state, recomputed with the layers or with torch's functions."""

import numpy as np
import pytest
import torch
from explorer_page import check_bars, check_maps, figures, framed_rows, near, numbers, paths, tips, told, tree_of
from made import SENTENCE
from torch.testing import assert_close

from attention_course.explorers import dropout
from attention_course.plots import GREY
from attention_helpers import MultiHeadAttention, attention_maps, causal_mask, load_sentence
from attention_helpers.dropout import draw_dropout_from

TOKENS, X = SENTENCE.tokens, SENTENCE.embeddings


def check_scores(e, query, temperature, sentence):
    tokens = sentence.split(", ")
    x = X[[TOKENS.index(token) for token in tokens]]
    weights = torch.softmax(x @ x.T / temperature, dim=-1)
    check_maps(e, weights[None], tokens)
    assert framed_rows(e) == near(query, off=0.02)
    check_bars(e, ", score: ", x @ x[query])
    check_bars(e, ", weight: ", weights[query])
    assert tips(e, ", embedding: ") == near(x[query], off=1e-4)
    assert tips(e, ", context: ") == near(weights[query] @ x, off=1e-4)
    assert f"{weights[query].max():.2f}" in figures(e.said)


def check_qkv(e, made):
    tokens, x = load_sentence("lookup")
    queries, keys, values = x, x, x
    if made != "embeddings":
        queries, keys = x[:, :3], x @ (10 * torch.eye(7)[:, :3] - 10 * (made == "matrices") * torch.eye(7)[:, 6:])
        values = x[:, 3:6]
    weights = torch.softmax(queries @ keys.T, dim=-1)
    check_maps(e, weights[None], tokens)
    cells = [words.rpartition(": ")[0] for words, _ in told(tree_of(e)) if ", entry " in words]
    assert cells == 2 * [f"{token}, entry {entry}" for token in tokens for entry in "ABC123?"[: queries.shape[1]]]
    assert tips(e, ", entry ") == near(queries, keys, off=1e-4)
    assert framed_rows(e) == near(3.0, off=0.02)
    assert tips(e, ", read: ") == near((weights @ values)[3], off=1e-4)


def check_scaling(e, d_k, seed, scaling):
    queries, keys = torch.randn(2, 6, d_k, generator=torch.Generator().manual_seed(seed))
    scores = queries @ keys.T
    scaled = scores / d_k**0.5 if scaling else scores
    weights = torch.softmax(scaled, dim=-1)
    check_maps(e, scores[None], "123456", "query {} meets key {}", limit=scores.abs().max())
    check_maps(e, weights[None], "123456", "query {} looks at key {}")
    check_bars(e, ", entropy: ", torch.distributions.Categorical(weights).entropy() / np.log(2), "width")
    assert {f"{scaled.var():.2g}", f"{weights.max():.2f}"} <= {*figures(e.said)}


def check_mask(e, mask, place):
    state, pair = e.arrays, e.arrays.tokens.index("B 1")
    future = causal_mask(4) & mask
    row = torch.full((4,), 0.0031)
    row[pair] = 0.9908
    if guesses := mask and pair > place:
        row = (torch.arange(4) <= place) / (place + 1)
    assert state.tokens[place] == "B ?"
    assert state.weights[place].tolist() == near(row, off=1e-4)
    check_maps(e, state.weights[None], state.tokens, hidden=future)
    check_maps(e, state.scores[None], state.tokens, "score of {} for {}", hidden=future, limit=10 / 3**0.5)
    assert framed_rows(e) == near(place, place, off=0.02)
    assert tips(e, ", read: ") == near(state.read, off=1e-4)
    assert numbers(e.said)[-1:] == near(row[0] if guesses else row[pair])


def check_dropout(e, step, p):
    """What is stored is shown; test_stored_models.py trains it again."""
    state, at = e.arrays, (dropout.RATES.index(p), step // 5)
    with np.load(dropout.RUNS_FILE) as runs:
        assert np.array_equal(state.weights, runs["maps"][at])
        assert numbers(e.said) == near(step, p, runs["losses"][at])
    check_maps(e, state.weights[None], [f"day {n}" for n in range(1, 7)], hidden=causal_mask(6))
    gone = int(state.dropped[~causal_mask(6)].sum())
    assert sum(paths(tree_of(e), stroke_width="1.5")) == gone
    assert gone / 21 == pytest.approx(p, abs=(p > 0) * 0.35)  # by chance, but never without dropout


def check_layer(e, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    state, future = e.arrays, causal_mask(6)
    torch.manual_seed(seed)
    layer = draw_dropout_from(MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias))
    torch.manual_seed(seed)
    assert_close(state.result, layer.train(training)(X[None])[0])
    assert_close(state.maps, attention_maps(layer.eval(), X[None])[0][0])
    assert not state.influence[future].any()
    dropped = (state.shown == 0) & (state.maps > 0)
    assert_close(state.shown, torch.where(dropped, 0.0, state.maps / (1 - dropout * training)))
    assert sum(paths(tree_of(e), stroke_width="1.5")) == dropped.sum()
    assert dropout * training or not dropped.any()
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert state.size.endswith(f", {parameters} parameters")
    assert {verdict.sign for verdict in state.verdicts.values()} == {"✓"}
    check_maps(e, state.shown, TOKENS, hidden=future, limit=1)
    look = {"limit": state.influence.max(), "colours": [GREY]}
    check_maps(e, state.influence[None], TOKENS, "perturbing {1} moves {0} by", **look)
