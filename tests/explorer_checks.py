"""What each explorer must show in any state, recomputed with the layers or with torch's functions."""

import itertools
import math
import random
import re
import xml.etree.ElementTree as ET
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v2,
    attention_weights,
    causal_mask,
)
from attention_helpers.explorers import lookup_models
from attention_helpers.explorers.lesson_06 import divisors
from attention_helpers.training.characters import CharacterModel
from attention_helpers.training.lookup import LookupModel, LookupTask
from tools.bench.made import MEASURED, MODEL, MODELS, RUN, SENTENCE, settings_of


def states(explorer, most):
    """The complete grid of control values, or `most` random states that cover every value of every control."""
    lists = {name: settings_of(control) for name, control in explorer.controls.items()}
    if np.prod([len(values) for values in lists.values()]) <= most:
        return [dict(zip(lists, state, strict=True)) for state in itertools.product(*lists.values())]
    chance = random.Random(0)
    columns = {name: [values[n % len(values)] for n in range(most)] for name, values in lists.items()}
    for column in columns.values():
        chance.shuffle(column)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def legal(name, state):
    """Give controls that depend on others a value that fits."""
    if state.get("weights") == "trained":
        state["num_heads"] = lookup_models.HEADS[state["seed"] % 3]
        width = lookup_models.WIDTHS[state["seed"] % 4]
        state["d_out"] = width // state["num_heads"] if name == "WrapperExplorer" else width
    elif name in ("SplitExplorer", "LayerExplorer"):
        options = [n for n in divisors(state["d_out"]) if name == "SplitExplorer" or n <= 8]
        state["num_heads"] = options[state["seed"] % len(options)]
    elif name == "CostExplorer":
        for part, whole in (("num_heads", "width"), ("num_kv_heads", "num_heads")):
            fits = [n for n in range(1, min(64, state[whole]) + 1) if state[whole] % n == 0]
            state[part] = max(n for n in fits if n <= state[part])
    elif name == "TextExplorer":
        state["back"] %= min(len(state["text"]), 32)
    elif name == "ReadingExplorer":
        state["token"] %= len(state["text"])  # the tests' small model has a token for each character
    return state


def impossible(name, state):
    """The error's message, if there is one."""
    if name == "VariantsExplorer" and state["num_kv_heads"] > state["num_heads"]:
        return "KV heads can't be shared by"
    if name == "MaskExplorer" and state["poked"] >= state["num_tokens"]:
        return "is not among the first"
    return "x must hold at most" if name == "LayerExplorer" and state["context_length"] < 6 else ""


def check_scores(state, query, temperature):
    x = SENTENCE.embeddings
    assert torch.equal(state.scores, x @ x.T)
    torch.testing.assert_close(state.weights, torch.softmax(x @ x.T / temperature, dim=-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(state.context, state.weights @ x)
    assert state.query == query


def check_qkv(state, source, d_out, seed, scaling, qkv_bias):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        steps = SelfAttention_v2(3, d_out, qkv_bias).steps(SENTENCE.embeddings)
    if source == "sentence":
        torch.testing.assert_close(state.scores, steps.scores)
        if scaling:
            torch.testing.assert_close(state.weights, steps.weights)
        assert state.parameters == 3 * (3 + qkv_bias) * d_out
    expected = attention_weights(state.scores, scale=d_out**-0.5 if scaling else 1.0)
    assert torch.equal(state.weights, expected)
    assert (state.entropy <= np.log2(6) + 1e-5).all()


def check_mask(state, num_tokens, method, poked, amount):
    future = causal_mask(num_tokens)
    x = SENTENCE.embeddings[None, :num_tokens]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        layer = CausalAttention(3, 2, 6, 0.0)
    if method in ("none", "leaky"):
        torch.testing.assert_close(state.weights, attention_weights(layer.steps(x).scores, scale=2**-0.5)[0])
        assert num_tokens == 1 or state.influence[future].min() > 0
    else:
        torch.testing.assert_close(state.weights, layer.steps(x).weights[0])
        assert not state.weights[future].any()
        assert state.influence[future].abs().max() < 1e-6 if num_tokens > 1 else True
    assert state.influence.shape == (num_tokens, num_tokens)
    assert torch.equal(state.moved, state.influence[:, poked])


def check_dropout(state, p, seed, training, draws):
    assert state.row_sums.shape == (draws, 6)
    assert state.histogram.sum() == pytest.approx(1)
    assert not state.dropped[causal_mask(6)].any()
    if training and p:
        torch.testing.assert_close(state.dropped, torch.where(state.kept, state.weights / (1 - p), 0.0))
    else:
        assert torch.equal(state.dropped, state.weights)
        torch.testing.assert_close(state.row_sums, torch.ones(draws, 6))


def check_heads(state, layer, x, dropout):
    future = causal_mask(x.shape[1])
    assert not state.weights[:, future].any()
    assert not state.shown[:, future].any()
    torch.testing.assert_close(state.weights.sum(dim=-1), torch.ones(state.weights.shape[:2]))
    torch.testing.assert_close(state.weights, layer.eval().steps(x).weights[0])
    values = layer.steps(x).values[0]  # (num_heads, num_tokens, head_dim)
    torch.testing.assert_close(state.context, torch.cat((state.shown @ values).unbind(), dim=-1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state.shown, torch.where(state.shown == 0, 0.0, state.weights / (1 - dropout)))
    assert dropout or torch.equal(state.shown, state.weights)
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())


def stored(width, num_heads):
    """A trained LookupModel from data/, and a batch of unseen examples, the first of which explorers show."""
    reader = LookupModel(lookup_models.TASK, width, num_heads)
    with np.load(lookup_models.FILE) as sets:
        named = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in reader.state_dict()}
    reader.load_state_dict({name: torch.from_numpy(part).float() for name, part in named.items()})
    x, answers = lookup_models.TASK.batch(torch.Generator().manual_seed(2**32 - 1))
    return reader, x, answers


@torch.no_grad()
def check_stack(state, num_heads, d_out, dropout, seed, weights):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, x = MultiHeadAttentionWrapper(3, d_out, 6, dropout, num_heads), SENTENCE.embeddings[None]
        if weights == "trained":
            reader, examples, _ = stored(num_heads * d_out, num_heads)
            attention, x = reader.attention, reader.embedded(examples[:1])
            torch.testing.assert_close(state.weights, attention.steps(x).weights[0])
            layer = MultiHeadAttentionWrapper(num_heads * d_out, d_out, 7, dropout, num_heads)
            for n, head in enumerate(layer.heads):
                rows = slice(n * d_out, (n + 1) * d_out)
                own = {name: part[rows] for name, part in attention.state_dict().items() if name.startswith("W_")}
                head.load_state_dict(own)
    check_heads(state, layer, x, dropout)


@torch.no_grad()
def check_split(state, d_out, num_heads, dropout, num_tokens, seed, weights, where, embeddings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, x = MultiHeadAttention(3, d_out, 64, dropout, num_heads), embeddings[None, :num_tokens]
        if weights == "trained":
            reader, examples, _ = stored(d_out, num_heads)
            layer, x = reader.attention, reader.embedded(examples[:1])
    check_heads(state, layer, x, dropout)
    assert torch.equal(state.x, x[0])
    steps = layer.eval().steps(x)
    for mine, theirs in zip(state.steps[:5], steps[:5], strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(state.output, layer.out_proj(state.context))
    assert state.where == where
    assert len(state.tokens) == x.shape[1]


def check_learning(state, step, example):
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
    torch.testing.assert_close(state.weights.sum(dim=-1), torch.ones(2, 7))
    assert not state.weights[:, causal_mask(7)].any()


def check_cost(state, num_tokens, num_heads, width, num_kv_heads, bytes):
    """Every product counted by its shapes: a row times a column takes as many multiplications as additions."""
    head_dim = width // num_heads
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
    assert sum(state.operations.values()) == counter.get_total_flops()
    known = (num_heads, width, num_kv_heads, bytes) == (12, 768, 12, 4)
    assert state.measured == (MEASURED if known else {})


def check_layer(state, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias)
        torch.manual_seed(seed)
        context = layer.train(training)(SENTENCE.embeddings[None])[0]
    torch.testing.assert_close(state.result, context)
    steps = layer.eval().steps(SENTENCE.embeddings[None])
    torch.testing.assert_close(state.maps, steps.weights[0])
    future = causal_mask(6)
    assert not state.shown[:, future].any()
    assert not state.influence[future].any()
    assert state.owners == [n * num_heads // d_out for n in range(d_out)]
    if not (training and dropout):
        assert torch.equal(state.shown, state.maps)
        torch.testing.assert_close(state.context, steps.context[0])
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())
    assert {verdict.sign for verdict in state.verdicts.values()} == {"✓"}
    assert " MultiHeadAttention returns the same numbers" in state.verdicts["course"].words


def scaled_by_hand(scaling, pairs):
    """Radians per token, by a loop over the pairs: factor 4, 16 tokens, turns 1 and 4, or 1 and 32 for YaRN."""
    frequencies, once = [], math.ceil(pairs * math.log(16 / (2 * math.pi), 10_000))  # the pair that turns once
    for pair in range(pairs):
        plain = 10_000 ** (-pair / pairs)
        kept = {"none": 1, "linear": 0, "Llama 3": (16 * plain / (2 * np.pi) - 1) / 3, "YaRN": 1 - pair / once}[scaling]
        kept = min(1, max(0, kept))
        frequencies.append(kept * plain + (1 - kept) * plain / 4)
    return torch.tensor(frequencies)


def check_variants(
    state, positions, scaling, rotated, qk_norm, num_heads, num_kv_heads, window, num_tokens, embeddings
):
    """Torch's function on a freshly made layer; with one-hot values per token, its result is the weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        head_dim = 64 // num_heads
        wide, narrow = 64, head_dim * num_kv_heads
        queries, keys = (5 * nn.Linear(3, width, bias=False)(embeddings[:num_tokens]) for width in (wide, narrow))
    queries, keys = (part.unflatten(-1, (-1, head_dim)).transpose(0, 1)[None] for part in (queries, keys))
    if qk_norm:
        queries, keys = (part / part.square().mean(dim=-1, keepdim=True).add(1e-6).sqrt() for part in (queries, keys))
    places = torch.arange(num_tokens)
    distances = places[:, None] - places
    seen = (distances >= 0) & (distances < window)
    bias = torch.zeros(num_heads, num_tokens, num_tokens)
    if positions == "rotary":
        width = int(head_dim * rotated)
        angles, factor = places[:, None] * scaled_by_hand(scaling, width // 2), 1.0
        if scaling == "YaRN":
            factor = 1 + 0.1 * np.log(4)
        turns = torch.polar(torch.full(angles.shape, factor), angles)
        for part in (queries, keys):
            pairs = torch.view_as_complex(part[..., :width].unflatten(-1, (-1, 2)).contiguous())
            part[..., :width] = torch.view_as_real(pairs * turns).flatten(-2)
    elif positions == "ALiBi":
        bias = -distances / 2 ** (8 * torch.arange(1, num_heads + 1) / num_heads)[:, None, None]
    bias = bias.masked_fill(~seen, -torch.inf)
    values = torch.eye(num_tokens).expand(1, num_kv_heads, -1, -1)
    weights = scaled_dot_product_attention(queries, keys, values, attn_mask=bias, enable_gqa=True)
    torch.testing.assert_close(state.weights, weights[0], atol=1e-5, rtol=1e-4)
    assert torch.equal(state.sees, seen)
    assert torch.equal(state.reaches, (distances >= 0) & (distances <= 2 * (window - 1)))
    assert state.parameters == 3 * wide + 2 * 3 * narrow + wide**2 + 2 * head_dim * qk_norm
    assert state.cache == 2 * min(num_tokens, window - 1) * narrow * 4


def check_playground(state, task, d_out, num_heads, dropout, learning_rate, mask, seed):
    """Before the first step: the attention weights of the model that the course trains, and its answers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if task == "next character":
            leaky = mask == "leaky"
            model = CharacterModel(state.run.task, d_out, num_heads, dropout=dropout, leaky=leaky)
        else:
            model = LookupModel(LookupTask(questions=1 + (task == "two questions")), d_out, num_heads)
    x, answers = state.run.x, state.run.answers
    outputs = model.eval()(x)
    torch.testing.assert_close(state.weights, model.maps(x[:1])[0])
    assert (state.step, state.run.learning_rate) == (0, learning_rate)
    assert state.run.model.attention.dropout.p == dropout
    [measured] = state.measured
    assert measured.held_loss == pytest.approx(state.run.task.loss(outputs, answers).item(), rel=1e-5)
    assert measured.accuracy == pytest.approx(state.run.task.accuracy(outputs, answers).min().item(), abs=0.01)
    digits = outputs[0].argmax(dim=-1)
    if task != "next character":
        assert state.predicted == [f"{digit}" for digit in digits.tolist()]
        assert state.answers == [state.tokens[token][-1] for token in state.wanted]


@torch.no_grad()
def check_text(state, text, back):
    models, task = MODELS
    token_ids = torch.tensor([[task.vocabulary.index(character) for character in text[-32:]]])
    assert state.place == token_ids.shape[1] - 1 - back
    for name, model in models.items():
        weights, shares = state.readings[name]
        torch.testing.assert_close(weights, model.maps(token_ids)[0])
        torch.testing.assert_close(shares, model(token_ids)[0, state.place].softmax(dim=-1))
        future = causal_mask(token_ids.shape[1])
        assert (name == "masked") == (not weights[:, future].any()) or not future.any()


def check_reading(state, text, layer, head, token, ablate):
    token_ids = MODEL.encode(text)
    whole, without = MODEL.look(token_ids), MODEL.look(token_ids, state.ablate)
    torch.testing.assert_close(state.maps, without.maps[0])
    place = token
    assert (state.layer, state.head, state.token) == (layer, head, place)
    shares = whole.logits[0, place].softmax(dim=-1).sort(descending=True).values
    torch.testing.assert_close(state.shares[0], shares[: len(state.next_words)])
    assert len(state.ablate) == {"none": 0, "this head": 1, "its layer": 4}.get(ablate, 5)
    assert ablate == "none" or not torch.equal(state.shares[0], state.shares[1])


CHECKS = {
    "ReadingExplorer": check_reading,
    "CostExplorer": check_cost,
    "LayerExplorer": check_layer,
    "LearningExplorer": check_learning,
    "Playground": check_playground,
    "ScoresExplorer": check_scores,
    "QKVExplorer": check_qkv,
    "MaskExplorer": check_mask,
    "DropoutExplorer": check_dropout,
    "WrapperExplorer": check_stack,
    "SplitExplorer": check_split,
    "VariantsExplorer": check_variants,
    "TextExplorer": check_text,
}


def plan(explorer, name, most):
    """Legal states of the grid, in the order in which controls depend on each other."""
    return [legal(name, state) for state in states(explorer, most)]


SVG = "{http://www.w3.org/2000/svg}"


@contextmanager
def naming(name, state):
    """Add the explorer and its state to a failure's message."""
    try:
        yield
    except BaseException as error:  # pytest's own failures aren't Exceptions
        error.add_note(f"{name} in the state {state}")
        raise


def check(explorer, name):
    """Check what an explorer shows against its layer, and its picture against the common format."""
    more = {"embeddings": explorer.embeddings} if name in ("SplitExplorer", "VariantsExplorer") else {}
    with naming(name, explorer.values):
        CHECKS[name](explorer.arrays, **explorer.values, **more)
    root = ET.fromstring(explorer.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == explorer.alt
    assert "nan" not in re.sub('base64,[^"]*', "", explorer.svg + explorer.readout).lower()
    return root
