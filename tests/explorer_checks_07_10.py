"""What the explorers of lessons 7 to 10 must show in any state, recomputed with layers or with torch's functions."""

import math

import pytest
import torch
from explorer_page import check_arcs, check_maps, near, numbers, readouts, tips
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import causal_mask
from attention_helpers.plots import HEAD_COLOURS
from attention_helpers.seeded import seeded
from attention_helpers.training.characters import CharacterModel
from attention_helpers.training.lookup import LookupModel, LookupTask
from tools.bench.made import MEASURED, MODEL, MODELS, RUN


def check_playground(e, task, d_out, num_heads, dropout, learning_rate, mask, seed):
    """Before the first step: the attention weights of the model that the course trains, and its answers."""
    state = e.arrays
    x, answers, run = state.run.x, state.run.answers, state.run
    if task == "next character":
        model = seeded(CharacterModel, seed, run.task, d_out, num_heads, dropout=dropout, leaky=mask == "leaky")
    else:
        model = seeded(LookupModel, seed, LookupTask(questions=1 + (task == "two questions")), d_out, num_heads)
    outputs = model.eval()(x)
    assert_close(state.weights, model.maps(x[:1])[0])
    assert (state.step, run.learning_rate, run.model.attention.dropout.p) == (0, learning_rate, dropout)
    [measured] = state.measured
    assert measured.held_loss == pytest.approx(run.task.loss(outputs, answers).item(), rel=1e-5)
    assert measured.accuracy == pytest.approx(run.task.accuracy(outputs, answers).min().item(), abs=0.01)
    if task != "next character":
        check_maps(e, state.weights, state.tokens, hidden=causal_mask(7), limit=1)
        check_arcs(e, [state.weights[:, 6]], state.tokens, 6)
        assert state.predicted == [f"{digit}" for digit in outputs[0].argmax(dim=-1).tolist()]
        assert state.answers == [state.tokens[token][-1] for token in state.wanted]


def check_learning(e, step, example):
    state = e.arrays
    [snapshot] = [snapshot for snapshot in RUN.snapshots if snapshot.step == step]
    assert torch.equal(state.weights, snapshot.maps[example - 1])
    assert state.loss == snapshot.loss
    assert torch.equal(state.accuracy, snapshot.accuracy)
    for shown, other in zip(state.run, RUN.snapshots, strict=True):  # (num_heads, num_tokens) each
        assert torch.equal(shown, other.maps[example - 1, :, 6])
    x = RUN.examples[example - 1]
    letters = [x[6, n] - (n + 1) * RUN.task.letters for n in range(2)]  # as they stand in a pair
    words = RUN.task.words(x)
    assert state.asked == [words[x[:6, 0].tolist().index(letter)] for letter in letters]
    check_maps(e, state.weights, words, hidden=causal_mask(7))
    check_arcs(e, [state.weights[:, 6]], words, 6)
    rows = []
    for head, row in enumerate(state.weights[:, 6].tolist(), 1):
        reads = zip(words, row, strict=True)
        rows += [head, *(number for word, weight in reads for number in (*numbers(word), weight))]
    assert numbers(e.alt) == near(step, RUN.snapshots[-1].step, snapshot.loss, snapshot.accuracy, rows)


def check_text(e, text, back):
    state, (models, task), read = e.arrays, MODELS, text[-32:]
    n, names, future = len(read), [character.replace(" ", "␣") for character in read], causal_mask(len(read))
    token_ids = torch.tensor([[task.vocabulary.index(character) for character in read]])
    assert state.place == n - 1 - back
    comes = task.vocabulary.index(read[n - back]) if back else None
    maps, hidden, bars, expected = [], [], [], []
    for name, model in models.items():
        weights, shares = state.readings[name]
        assert_close(weights, model.maps(token_ids)[0])
        assert_close(shares, model(token_ids)[0, state.place].softmax(dim=-1))
        assert (name == "masked") == (not weights[:, future].any()) or not future.any()
        maps.append(weights)
        hidden.append((future & (name == "masked")).expand_as(weights))
        best, ids = shares.topk(8)
        if back:
            best[-1] = best[-1] if comes in ids else shares[comes]
            expected.append(shares[comes])
        bars.append(best)
    heads = [*HEAD_COLOURS[: len(maps[0])]]
    check_maps(e, torch.cat(maps), names, hidden=torch.cat(hidden), colours=2 * heads)
    check_arcs(e, [weights[:, state.place] for weights in maps], names, state.place)
    assert tips(e, ", probability: ") == near(*bars, off=1e-4)
    if back:
        assert numbers(e.said) == near(*expected)
        assert numbers(" ".join(readouts(e).values())) == near(*[-share.log() for share in expected])


def check_cost(e, num_tokens, num_heads, width, num_kv_heads, bytes):
    """Every product counted by its shapes: a row times a column takes as many multiplications as additions."""
    state, head_dim = e.arrays, width // num_heads
    assert state.table == torch.empty(num_heads, num_tokens, num_tokens, device="meta").numel() * bytes
    assert state.cache == torch.empty(2, num_kv_heads, num_tokens, head_dim, device="meta").numel() * bytes
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        x, query, key, value = (torch.empty(*shape) for shape in (
            (num_tokens, width), (width, width), *2 * [(width, num_kv_heads * head_dim)]
        ))  # fmt: skip
        queries = (x @ query).unflatten(1, (num_heads, head_dim)).transpose(0, 1)
        keys, values = ((x @ part).unflatten(1, (num_kv_heads, head_dim)).transpose(0, 1) for part in (key, value))
        keys, values = (part.repeat_interleave(num_heads // num_kv_heads, 0) for part in (keys, values))
        context = queries @ keys.mT @ values
        context.transpose(0, 1).flatten(1) @ torch.empty(width, width)
    total = counter.get_total_flops()
    assert sum(state.operations.values()) == total
    parts = torch.tensor([*state.operations.values()]) / total
    assert tips(e, ", share: ") == near(parts, off=1e-4)
    known = (num_heads, width, num_kv_heads, bytes) == (12, 768, 12, 4)
    assert state.measured == (MEASURED if known else {})
    assert ("peak" in e.svg) == known
    assert numbers(readouts(e)["FLOPs"]) == near(total / 1e9, parts[1:3].sum())


def scaled_by_hand(scaling, pairs):
    """Radians per token, by a loop over the pairs: factor 4, 16 tokens, turns 1 and 4, or 1 and 32 for YaRN."""
    frequencies, once = [], math.ceil(pairs * math.log(16 / (2 * math.pi), 10_000))  # the pair that turns once
    for pair in range(pairs):
        plain = 10_000 ** (-pair / pairs)
        kept = {"none": 1, "linear": 0, "Llama 3": (16 * plain / math.tau - 1) / 3, "YaRN": 1 - pair / once}[scaling]
        kept = min(1, max(0, kept))
        frequencies.append(kept * plain + (1 - kept) * plain / 4)
    return torch.tensor(frequencies)


def weights_of_a_variant(x, positions, scaling, rotated, qk_norm, num_heads, num_kv_heads, seen):
    """Torch's function on a freshly made layer; with one-hot values per token, its result is the weights."""
    num_tokens, head_dim = len(x), 64 // num_heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        queries, keys = (5 * nn.Linear(3, width, bias=False)(x) for width in (64, head_dim * num_kv_heads))
    queries, keys = (part.unflatten(-1, (-1, head_dim)).transpose(0, 1)[None] for part in (queries, keys))
    if qk_norm:
        queries, keys = (part / part.square().mean(dim=-1, keepdim=True).add(1e-6).sqrt() for part in (queries, keys))
    places = torch.arange(num_tokens)
    bias = torch.zeros(num_heads, num_tokens, num_tokens)
    if positions == "rotary":
        width, factor = int(head_dim * rotated), 1 + 0.1 * math.log(4) if scaling == "YaRN" else 1.0
        angles = places[:, None] * scaled_by_hand(scaling, width // 2)
        turns = torch.polar(torch.full(angles.shape, factor), angles)
        for part in (queries, keys):
            pairs = torch.view_as_complex(part[..., :width].unflatten(-1, (-1, 2)).contiguous())
            part[..., :width] = torch.view_as_real(pairs * turns).flatten(-2)
    elif positions == "ALiBi":
        slopes = 2 ** (8 * torch.arange(1, num_heads + 1) / num_heads)
        bias = (places - places[:, None]) / slopes[:, None, None]
    values = torch.eye(num_tokens).expand(1, num_kv_heads, -1, -1)
    bias = bias.masked_fill(~seen, -torch.inf)
    return scaled_dot_product_attention(queries, keys, values, attn_mask=bias, enable_gqa=True)[0]


@torch.no_grad()
def check_variants(e, window, num_tokens, **values):
    state, num_heads, num_kv_heads = e.arrays, values["num_heads"], values["num_kv_heads"]
    distances = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
    seen, reaches = ((distances >= 0) & (distances < width) for width in (window, 2 * window - 1))
    weights = weights_of_a_variant(e.embeddings[:num_tokens], seen=seen, **values)
    assert_close(state.weights, weights, atol=1e-5, rtol=1e-4)
    assert torch.equal(state.sees, seen)
    assert torch.equal(state.reaches, reaches)
    head_dim, kv_width = 64 // num_heads, 64 // num_heads * num_kv_heads
    parameters = 3 * 64 + 2 * 3 * kv_width + 64**2 + 2 * head_dim * values["qk_norm"]
    assert state.cache == 2 * min(num_tokens, window - 1) * kv_width * 4
    owners = [head * num_kv_heads // num_heads for head in range(num_heads)]
    colours = [HEAD_COLOURS[owner] for owner in owners]
    check_maps(e, state.weights, e.tokens[:num_tokens], hidden=~seen, limit=1, colours=colours)
    shared = [] if num_heads == num_kv_heads else [num_kv_heads]
    said = [num_heads, *shared, seen[-1].sum(), num_tokens, 2, reaches[-1].sum()]
    most, keys = state.weights[:, -1].max(dim=-1)
    each = zip(range(num_heads), owners, keys.tolist(), most.tolist(), strict=True)
    heads = [number for head, owner, key, weight in each for number in (head + 1, owner + 1, key + 1, weight)]
    assert numbers(e.said) == near(said)
    assert numbers(e.alt) == near(said, heads)
    found = readouts(e)
    assert numbers(found["per token"]) == [512, 8 * kv_width, 96, 16, 8]
    assert numbers(found["head_dim"]) == [64, num_heads, head_dim]
    assert numbers(found["parameters"]) == [parameters] == [state.parameters]


def check_reading(e, text, layer, head, token, ablate):
    state, token_ids = e.arrays, MODEL.encode(text)
    whole, without = MODEL.look(token_ids), MODEL.look(token_ids, state.ablate)
    assert_close(state.maps, without.maps[0])
    assert (state.layer, state.head, state.token) == (layer, head, token)
    shares, ids = whole.logits[0, token].softmax(dim=-1).topk(5)
    assert_close(state.shares, torch.stack([shares, without.logits[0, token].softmax(dim=-1)[ids]]))
    assert len(state.ablate) == {"none": 0, "this head": 1, "its layer": 4}.get(ablate, 5)
    assert ablate == "none" or not torch.equal(state.shares[0], state.shares[1])
    assert tips(e, ", all heads: ") == near(state.shares[0], off=1e-4)
    assert tips(e, ", ablated: ") == near(state.shares[1] if state.ablate else [], off=1e-4)
    before, now = (f"{share:.2f}" for share in state.shares[:, 0])
    moves = [before, now] if before != now else [now]
    most = state.maps[layer, head, token].max()
    found = numbers(e.said)
    assert found == near([layer, head, most] if ablate == "none" else [len(state.ablate), *map(float, moves)])
