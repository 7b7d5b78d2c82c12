"""What the explorers of lessons 1 to 6 must show in any state, recomputed with the layers or with torch's functions."""

import numpy as np
import pytest
import torch
from explorer_page import bands, check_maps, figures, frames, near, numbers, paths, readouts, tips, tree_of
from torch.testing import assert_close

from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v2,
    attention_weights,
    causal_mask,
)
from attention_helpers.explorers import lookup_models
from attention_helpers.plots import HEAD_COLOURS
from attention_helpers.seeded import seeded
from attention_helpers.training.lookup import LookupModel
from tools.bench.made import SENTENCE

TOKENS, X = SENTENCE.tokens, SENTENCE.embeddings
BLUE, GREY = HEAD_COLOURS[0], "#767676"


def bits(weights):
    """The entropy of each row."""
    return -(weights * weights.clamp(min=1e-45).log2()).sum(-1)


def check_scores(e, query, temperature):
    state = e.arrays
    assert torch.equal(state.scores, X @ X.T)
    assert_close(state.weights, torch.softmax(X @ X.T / temperature, dim=-1), atol=1e-5, rtol=1e-5)
    assert_close(state.context, state.weights @ X)
    scores, weights = state.scores[query], state.weights[query]
    check_maps(e, state.weights[None], TOKENS)
    [(_, y, _, height)] = frames(tree_of(e), "3")
    assert y / height == pytest.approx(query, abs=0.02)
    assert tips(e, ", score: ") == near(scores, off=1e-4)
    assert tips(e, ", weight: ") == near(weights, off=1e-4)
    assert tips(e, ", context: ") == near(state.context[query], off=1e-4)
    assert numbers(e.alt) == near(scores, temperature, weights, state.context[query])
    assert f"{weights.max():.2f}" in figures(e.said)
    divided = scores / temperature
    expected = near(divided.min(), divided.max(), bits(weights), np.log2(6))
    assert numbers(" ".join(readouts(e).values())) == expected


def check_qkv(e, source, d_out, seed, scaling, qkv_bias):
    state = e.arrays
    steps = seeded(SelfAttention_v2, seed, 3, d_out, qkv_bias).steps(X)
    if source == "sentence":
        assert_close(state.scores, steps.scores)
        assert not scaling or torch.allclose(state.weights, steps.weights, atol=1e-5)
    else:
        queries, keys = torch.randn(2, 6, d_out, generator=torch.Generator().manual_seed(seed))
        assert_close(state.scores, queries @ keys.T)
    scale = d_out**-0.5 if scaling else 1.0
    assert torch.equal(state.weights, attention_weights(state.scores, scale=scale))
    variance, entropy = (state.scores * scale).var(), bits(state.weights)
    check_maps(e, state.scores[None], TOKENS, "{} meets {}", limit=state.scores.abs().max())
    check_maps(e, state.weights[None], TOKENS)
    assert tips(e, ", entropy: ") == near(entropy, off=1e-3)
    low, high = state.scores.aminmax()
    assert numbers(e.alt) == near(low, high, state.weights.amax(dim=-1), entropy.mean())
    assert f"{variance:.2g}" in figures(e.said)
    assert f"{state.weights.max():.2f}" in figures(e.said)
    before = [variance / scale**2, d_out] if scaling and d_out > 1 else []
    parameters = [3 * (3 + qkv_bias) * d_out] if source == "sentence" else []
    assert numbers(" ".join(readouts(e).values())) == near(variance, before, entropy.mean(), np.log2(6), parameters)


def check_mask(e, num_tokens, method, poked, amount):
    state, future, names = e.arrays, causal_mask(num_tokens), TOKENS[:num_tokens]
    layer, x = seeded(CausalAttention, 123, 3, 2, 6, 0.0), X[None, :num_tokens]
    leaky = method in ("none", "leaky") and num_tokens > 1
    if method in ("none", "leaky"):
        assert_close(state.weights, attention_weights(layer.steps(x).scores, scale=2**-0.5)[0])
        assert not leaky or state.influence[future].min() > 0
    else:
        assert_close(state.weights, layer.steps(x).weights[0])
        assert not state.weights[future].any()
        assert not state.influence[future].any()
    check_maps(e, state.weights[None], names, hidden=None if method in ("none", "leaky") else future)
    less, more = sorted(each.max() for each in (state.correct, state.influence))
    influence = torch.stack([state.correct, state.influence])
    look = {"limit": min(2 * less, more), "colours": [GREY, GREY]}
    check_maps(e, influence, names, "perturbing {1} moves {0} by", **look)
    assert [x / width for x, _, width, _ in frames(tree_of(e), "3")] == near([poked, poked], off=0.02)
    moves = state.influence[:, poked]
    both = torch.stack([moves, state.correct[:, poked]], dim=1)
    assert numbers(e.alt) == near(state.weights.amax(dim=-1), amount, both)
    who, earlier = [f"“{TOKENS[poked]}”"], moves[:poked]
    leak = [f"“{TOKENS[earlier.argmax()]}”", f"{earlier.max():.2g}"] if leaky and poked else []
    assert figures(e.said) == leak + who
    pairs, ahead = num_tokens * (num_tokens - 1) // 2, (state.weights * future).sum(dim=-1).max()
    moving = [pairs, pairs, 0, ahead] if leaky else [0, pairs, 0]
    assert numbers(" ".join(readouts(e).values())) == near(moving)


def check_dropout(e, p, seed, training, draws):
    state, future = e.arrays, causal_mask(6)
    sums, off = state.row_sums, (state.average - state.weights).abs().max()
    assert sums.shape == (draws, 6)
    assert_close(state.average.sum(dim=-1), sums.mean(dim=0), atol=1e-5, rtol=1e-5)
    assert not state.dropped[future].any()
    if training and p:
        assert_close(state.dropped, torch.where(state.kept, state.weights / (1 - p), 0.0))
    else:
        assert torch.equal(state.dropped, state.weights)
        assert_close(sums, torch.ones(draws, 6))
    counts, _ = np.histogram((sums.double() + 1e-6).clamp(max=2.9), 12, (0, 3))
    assert tips(e, ", share: ") == near(counts / sums.numel(), off=1e-4)
    maps = torch.stack([state.weights, state.dropped, state.average])
    check_maps(e, maps, TOKENS, hidden=future, colours=[BLUE] * 3)
    check_maps(e, state.kept[None].float(), TOKENS, "{} keeps {}", hidden=future, limit=2, colours=[GREY])
    kept, factor = int(state.kept[~future].sum()), 1 / (1 - p) if training else 1
    assert sum(paths(tree_of(e), stroke_width="1.5")) == 2 * (21 - kept)  # crosses in the mask and in the weights
    assert numbers(e.alt) == near(kept, 21, sums.min(), sums.max(), sums.mean(), off)
    found = numbers(" ".join(readouts(e).values()))
    assert found == near(sums.min(), sums.max(), sums.mean(), kept, 21, factor, off)


def stored(width, num_heads):
    """A trained LookupModel from data/, a batch of unseen examples, and its accuracy on the first 64 of them."""
    reader = LookupModel(lookup_models.TASK, width, num_heads)
    with np.load(lookup_models.FILE) as sets:
        named = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in reader.state_dict()}
    reader.load_state_dict({name: torch.from_numpy(part).float() for name, part in named.items()})
    x, answers = lookup_models.TASK.batch(torch.Generator().manual_seed(2**32 - 1))
    return reader, x, (reader(x[:64]).argmax(dim=-1) == answers[:64]).double().mean(dim=0)


def check_heads(e, layer, x, dropout, accuracy):
    """What both explorers of heads show; the first of the trained models' examples is the one on the page."""
    state, future, tokens = e.arrays, causal_mask(x.shape[1]), e.arrays.tokens
    assert not state.shown[:, future].any()
    assert_close(state.weights, layer.eval().steps(x).weights[0])
    values = layer.steps(x).values[0]  # (num_heads, num_tokens, head_dim)
    assert_close(state.context, torch.cat((state.shown @ values).unbind(), dim=-1), atol=1e-5, rtol=1e-4)
    assert_close(state.shown, torch.where(state.shown == 0, 0.0, state.weights / (1 - dropout)))
    assert dropout or torch.equal(state.shown, state.weights)
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())
    assert_close(state.entropy, bits(state.weights).mean(dim=-1), atol=1e-4, rtol=1e-4)
    if accuracy is not None:
        assert_close(state.accuracy.double(), accuracy)
        assert numbers(readouts(e)["trained for"])[-2:] == near(accuracy)
    return state, future, tokens


def gone_from(state):
    """How many weights dropout took, of how many, and by how much the others grew."""
    left, gone = state.shown > 0, int(((state.shown == 0) & (state.weights > 0)).sum())
    grown = [(state.shown[left] / state.weights[left])[0]] if left.any() else []
    return [gone, int((state.weights > 0).sum()), *grown] if gone or (grown and grown[0] > 1) else []


def last_rows(state, maps):
    """For each head its number, the largest weight of its last row unless that is 0, and its mean entropy."""
    each = zip(maps[:, -1].amax(dim=-1).tolist(), state.entropy.tolist(), strict=True)
    return [part for head, (most, mean) in enumerate(each, 1) for part in (head, *([most] if most else []), mean)]


def ends(table):
    return [table.min(), table.max()]


@torch.no_grad()
def check_stack(e, num_heads, d_out, dropout, seed, weights):
    width, accuracy, x = num_heads * d_out, None, X[None]
    layer = seeded(MultiHeadAttentionWrapper, seed, 3, d_out, 6, dropout, num_heads)
    if weights == "trained":
        reader, examples, accuracy = stored(width, num_heads)
        x, layer = reader.embedded(examples[:1]), MultiHeadAttentionWrapper(width, d_out, 7, dropout, num_heads)
        for n, head in enumerate(layer.heads):
            matrices = {name: part for name, part in reader.attention.state_dict().items() if name.startswith("W_")}
            head.load_state_dict({name: part[n * d_out : (n + 1) * d_out] for name, part in matrices.items()})
    state, future, tokens = check_heads(e, layer, x, dropout, accuracy)
    check_maps(e, state.shown, tokens, hidden=future)
    assert bands(e) == [*HEAD_COLOURS[:num_heads]]
    assert width > 16 or tips(e, ", entry ") == near(state.context, off=1e-4)
    found = readouts(e)
    assert numbers(found["context"]) == [num_heads, d_out, width]
    assert numbers(found["parameters"]) == [num_heads, state.parameters / num_heads, state.parameters]
    assert numbers(found["entropy per head"]) == near(state.entropy)
    assert not (gone := gone_from(state)) or numbers(e.said) == near(gone)
    assert numbers(e.alt) == near(last_rows(state, state.shown), width, *ends(state.context))


@torch.no_grad()
def check_split(e, d_out, num_heads, dropout, num_tokens, seed, weights, where):
    layer, x, accuracy = seeded(MultiHeadAttention, seed, 3, d_out, 64, dropout, num_heads), e.embeddings, None
    x = x[None, :num_tokens]
    if weights == "trained":
        reader, examples, accuracy = stored(d_out, num_heads)
        layer, x = reader.attention, reader.embedded(examples[:1])
    state, future, tokens = check_heads(e, layer, x, dropout, accuracy)
    assert torch.equal(state.x, x[0])
    steps = layer.eval().steps(x)
    for mine, theirs in zip(state.steps[:5], steps[:5], strict=True):
        assert_close(mine, theirs)
    assert_close(state.output, layer.out_proj(state.context))
    scores, looks, stages = steps.scores[0], where in ("scores", "mask"), [*e.controls["where"].options]
    maps = scores if looks else state.weights if where == "softmax" else state.shown
    if stages.index(where) >= stages.index("scores"):
        look = {"tell": "{} meets {}", "limit": scores.abs().max()} if looks else {}
        check_maps(e, maps, tokens, hidden=None if where == "scores" else future, **look)
    if where in ("dropout", "output") and len(tokens) <= 16:
        crosses = sum(paths(tree_of(e), stroke_width="1.5"))
        assert crosses == ((state.shown == 0) & (state.weights > 0)).sum()
    if where == "output":  # queries, keys, values and contexts have heads, tokens and outputs have none
        assert bands(e) == 4 * [HEAD_COLOURS[head % 8] for head in range(num_heads)]
    check_stage(e, state, where, maps, stages)


def check_stage(e, state, where, maps, stages):
    """The figures of SplitExplorer's headline and alternative text at each stage."""
    (n, d_in), d_out, scores, num_heads = state.x.shape, state.output.shape[1], state.steps.scores[0], len(maps)
    head_dim, gone = d_out // num_heads, gone_from(state)
    said = {
        "tokens": [n, d_in, *ends(state.x)],
        "queries": [d_in, d_out, head_dim],
        "keys": [d_out, head_dim],
        "values": [head_dim],
        "scores": [*ends(scores), scores.amax(dim=(1, 2)).argmax() + 1],
        "mask": [n * (n - 1) // 2, n * n],
        "dropout": gone or [(state.weights > 0).sum()],
        "context": [head_dim],
        "side by side": [num_heads, head_dim, d_out],
        "output": [d_out] if state.accuracy is None else [*state.accuracy],
    }
    assert where == "softmax" or numbers(e.said) == near(said[where])
    highest = maps.masked_fill(causal_mask(n), -torch.inf) if where == "mask" else maps
    heads = [part for head, table in enumerate(highest, 1) for part in (head, table.max())]
    heads = heads if where in ("scores", "mask") else last_rows(state, maps)
    tables = [state.x, *(part[0].transpose(0, 1).flatten(1) for part in state.steps[:3]), state.context, state.output]
    *first, context, output = [[table.shape[1], *ends(table)] for table in tables]
    stage = stages.index(where) + 1
    assert numbers(e.alt) == near(stage, len(stages), *first, heads, context, output)


def check_layer(e, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    state, future, tokens = e.arrays, causal_mask(6), TOKENS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias)
        torch.manual_seed(seed)
        context = layer.train(training)(X[None])[0]
    assert_close(state.result, context)
    steps = layer.eval().steps(X[None])
    assert_close(state.maps, steps.weights[0])
    assert not state.shown[:, future].any()
    assert not state.influence[future].any()
    assert state.owners == [n * num_heads // d_out for n in range(d_out)]
    kept = state.maps / (1 - dropout if training else 1)
    assert_close(state.shown, torch.where(state.shown == 0, 0.0, kept))
    crosses = sum(paths(tree_of(e), stroke_width="1.5"))
    assert crosses == ((state.shown == 0) & (state.maps > 0)).sum()
    if not (training and dropout):
        assert not crosses
        assert_close(state.context, steps.context[0])
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())
    assert {verdict.sign for verdict in state.verdicts.values()} == {"✓"}
    assert " MultiHeadAttention returns the same numbers" in state.verdicts["course"].words
    check_maps(e, state.shown, tokens, hidden=future, limit=1)
    look = {"limit": state.influence.max(), "colours": [GREY], "bar": False}
    check_maps(e, state.influence[None], tokens, "perturbing {1} moves {0} by", **look)
    assert numbers(e.alt)[-6:] == near(state.influence[:, -1])
