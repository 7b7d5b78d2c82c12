"""What the explorers of trained lookups must show in any state (lessons 2, 5 and 6), recomputed with the layers."""

import numpy as np
import pytest
import torch
from explorer_page import (
    bands,
    check_maps,
    near,
    numbers,
    paths,
    planes_of,
    readouts,
    tips,
    told,
    tree_of,
    words_of,
)
from torch.nn.utils import vector_to_parameters
from torch.testing import assert_close

from attention_course.explorers import lookup_models
from attention_course.plots import HEAD_COLOURS
from attention_helpers import (
    Dropout,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    attention_maps,
    causal_mask,
    load_sentence,
)
from attention_helpers.dropout import draw_dropout_from
from attention_helpers.training.lookup import LookupModel, LookupTask

NAMES = "ABCDEFGHIJ"


def check_plane(shown, keys, queries, asked, weights, last):
    """A plane has its points where the layer has them, up to a scale for keys and one for queries.

    last: the keys and queries that set directions and scales. weights: by key, NaN where there's no such token.
    """
    points, dots, squares, arrow = shown
    wide, spread, fixed = keys.shape[1], last[0] - last[0].mean(dim=0), 0 if len(queries) else 1
    up = asked / asked.norm()  # one direction is that of the only query
    _, sizes, axes = torch.linalg.svd((spread - fixed * spread @ up.T * up).double())
    if wide > 2 and sizes[1 - fixed] - sizes[2 - fixed] < 0.01 * sizes[0]:  # other directions are as good
        return
    axes = torch.cat((axes.float()[: 2 - fixed], up[:fixed])) if wide > 2 else torch.eye(wide)
    flat = torch.cat((dots, torch.tensor([arrow])))
    for spots, vectors, of, most in ((points, keys, last[0], 0.58), (flat, torch.cat((queries, asked)), last[1], 0.86)):
        placed, outermost = vectors @ axes.T, (of @ axes.T).norm(dim=1).max().clamp(min=1e-9)
        placed = placed / outermost * (0.86 if wide == 1 else most)
        if wide > 2:  # any two directions of the same plane
            assert_close(spots @ spots.T, placed @ placed.T, atol=0.02, rtol=0)
        else:
            assert spots[:, :wide].flatten().tolist() == near(placed.clamp(-1, 1), off=0.01)
    for (words, *_, part), weight in zip(squares, weights, strict=True):
        here = not np.isnan(weight)
        assert numbers(words)[-1:] == (near(weight) if here else [])
        assert float(part.get("fill-opacity")) == pytest.approx(min(weight, 1) if here else 0, abs=5.1e-3)
        assert part.get("stroke-opacity") == ("1" if here else "0.3")


def stored(questions, d_out, num_heads, step=600):
    """A trained LookupModel from data/, 500 unseen examples, and which of its answers to them are right."""
    model = LookupModel(LookupTask(questions), 32, num_heads, d_out=d_out)
    with np.load(lookup_models.MODELS_FILE) as sets:
        rows = sets[f"{questions} questions, d_out {d_out}, {num_heads} heads"]
    row = rows[lookup_models.STORED_STEPS.index(step)] if questions == 1 else rows[0]
    vector_to_parameters(torch.from_numpy(row).float(), model.parameters())
    x, answers = LookupTask(questions, batch_size=500).batch(torch.Generator().manual_seed(2**32 - 1))
    return model.requires_grad_(False), x, answers


def letters_of(model):
    """Each head's mean key by letter, over all pairs, and its query by letter."""
    cut, attention = model.attention.split_heads, model.attention
    pairs = torch.tensor([[[[a, 30 + digit]] for digit in range(10)] for a in range(10)]).flatten(0, 1)
    keys = cut(attention.W_key(model.embed(pairs).sum(dim=2))).view(10, 10, attention.num_heads, 1, attention.head_dim)
    asks = torch.tensor([[[10 + a, model.task.blank]] for a in range(10)])
    return keys.mean(dim=1)[:, :, 0].transpose(0, 1), cut(attention.W_query(model.embed(asks).sum(dim=2)))[:, :, 0]


def row_of(tokens, weights):
    """The weights of the pairs with each letter, NaN for letters without a pair."""
    found = {token[0]: weight for token, weight in zip(tokens[:-1], weights.tolist(), strict=False)}
    return [found.get(name, np.nan) for name in NAMES]


@torch.no_grad()
def check_key_width(e, d_out, step, asked):
    state, (model, x, answers) = e.arrays, stored(1, d_out, 1, step)
    right, letters = (model(x).argmax(dim=-1) == answers)[:, 0], x[:, -1, 0] - 10
    number = (letters == asked).nonzero()[0]
    weights = attention_maps(model, x[number])[0][0, 0, -1]
    assert_close(state.weights, weights)
    assert state.tokens == model.task.words(x[number][0])
    assert tips(e, ", weight: ") == near(weights, off=1e-4)
    shares = [right[letters == n].float().mean() for n in range(10)]
    assert tips(e, ", accuracy: ") == near(shares, off=1e-4)
    (keys, queries), (last_keys, last) = letters_of(model), letters_of(stored(1, d_out, 1)[0])
    [shown] = planes_of(tree_of(e))
    check_plane(
        shown, keys[0], queries[:, 0], queries[[asked], 0], row_of(state.tokens, weights), (last_keys[0], last[:, 0])
    )
    assert numbers(e.said) == near(d_out, step, torch.stack(shares).mean())


def dropped(p, seed, shape):
    """Which weights a mask drops, by the rule that layers and lessons share."""
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) >= 1 - p


def set_dropout(layer, p, seed):
    """Put a layer in training mode, with dropout p that draws from this seed."""
    draw_dropout_from(layer.train(), torch.Generator().manual_seed(seed))
    for part in layer.modules():
        if isinstance(part, Dropout):
            part.p = p


def by_head(layer, name, x):
    """What one of a layer's matrices makes of x (1, num_tokens, d_in), (num_heads, num_tokens, head_dim)."""
    if isinstance(layer, MultiHeadAttentionWrapper):
        return torch.cat([getattr(head, name)(x) for head in layer.heads])
    return layer.split_heads(getattr(layer, name)(x))[0]


def check_heads(e, layer, example, dropout, seed, trained, *words, columns=None):
    """What both explorers of heads show of a layer, with words in the picture; returns the state.

    example: x (1, num_tokens, d_in), and its number among the trained model's examples. trained: the model and its
    examples, or None.
    """
    state, (x, number) = e.arrays, example
    made = torch.cat([each.view(-1, *each.shape[-2:]) for each in attention_maps(layer, x)])
    gone = dropped(dropout, seed, made.shape)
    weights = torch.where(gone, 0, made / (1 - dropout))
    assert_close(state.weights, weights)
    set_dropout(layer, dropout, seed)
    project = getattr(layer, "out_proj", torch.nn.Identity())
    assert_close(project(state.context), layer(x)[0], atol=1e-5, rtol=1e-4)
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())
    check_maps(e, state.weights, state.tokens, hidden=causal_mask(x.shape[1]))
    assert sum(paths(tree_of(e), stroke_width="1.5")) == (gone & ~causal_mask(x.shape[1])).sum()
    largest = state.context.abs().max() or 1  # where dropout left nothing
    written = f"-{largest:.2g}" if largest < 100 else f"-{largest:.0f}"
    assert {*words, written, "digit →" if columns else "entry →"} <= {*words_of(tree_of(e))}
    said = [words for words, _ in told(tree_of(e)) if ", entry " in words and " of " not in words]
    places = [f"{token}, entry {n}" for token in state.tokens for n in columns or range(state.context.shape[1])]
    assert [words.rpartition(": ")[0] for words in said] == places
    assert [numbers(words)[-1] for words in said] == near(state.context, off=6e-3 if trained else 1e-4)
    planes = [*planes_of(tree_of(e))]
    assert len(planes) == (len(weights) if trained else 0)
    if trained:
        check_trained(e, number, dropout, seed, *trained)
    for head, shown in enumerate(planes):
        keys, asked = by_head(layer, "W_key", x)[head], by_head(layer, "W_query", x)[head, [-1]]
        check_plane(shown, keys, asked[:0], asked, weights[head, -1].tolist(), (keys, asked))
    return state


def check_trained(e, number, dropout, seed, model, x, answers):
    """What's shown of a trained model: its accuracy under dropout, and its answer."""
    state, found = e.arrays, readouts(e)
    logits = model.output_layer(model.attention.out_proj(state.context[-1])).view(2, 10)
    assert state.answers == (logits.argmax(dim=-1).tolist(), answers[number].tolist())
    said, wanted = state.answers
    assert numbers(found["answer"]) == ([*said] if said == wanted else [*said, *wanted])
    set_dropout(model.attention, dropout, seed)
    right = (model(x).argmax(dim=-1) == answers).float().mean(dim=0)
    assert_close(state.accuracy, right)
    assert numbers(e.said)[-2:] == near(right)


def by_hand(num_heads, example):
    """The sentence with two questions, as a batch, and the heads' matrices, (3, 12) each."""
    x, (letter, digit, first, second) = load_sentence("two_lookups").embeddings[None], torch.eye(12).split(3)
    if example == 2:
        x[0, [1, 2], 3:6] = x[0, [2, 1], 3:6]
    queries = torch.cat((first, second)) if num_heads == 2 else first + second
    return x, (queries, 10 * letter.repeat(num_heads, 1), digit.repeat(num_heads, 1))


def made_from(weights, d_out, num_heads, example, hands):
    """The trained model with its examples, or None; the shown sentence's x; W_query, W_key and W_value."""
    if weights == "hand-made":
        return None, *by_hand(hands, example)
    model, x, answers = stored(2, d_out, num_heads)
    return (model, x, answers), model.embed(x[[example - 1]]).sum(dim=2), [*model.attention.parameters()][:3]


@torch.no_grad()
def check_stack(e, num_heads, d_out, example, dropout, seed, weights):
    trained, x, matrices = made_from(weights, num_heads * d_out, num_heads, example, num_heads)
    layer, width = MultiHeadAttentionWrapper(x.shape[-1], d_out, 7, 0.0, num_heads), num_heads * d_out
    for n, head in enumerate(layer.heads):
        for mine, theirs in zip(head.parameters(), matrices, strict=True):
            mine.copy_(theirs[n * d_out : (n + 1) * d_out])
    digits = None if trained else "123" * num_heads
    title = "context vectors, head after head"
    state = check_heads(e, layer, (x, example - 1), dropout, seed, trained, title, columns=digits)
    assert bands(e) == [*HEAD_COLOURS[:num_heads]]
    found = readouts(e)
    parameters = num_heads, state.parameters // num_heads, state.parameters
    assert numbers(found["width, parameters"]) == [num_heads, d_out, width, *parameters]


class CutByViewAlone(MultiHeadAttention):
    def split_heads(self, x):
        return x.reshape(len(x), self.num_heads, -1, self.head_dim)


@torch.no_grad()
def check_split(e, num_heads, d_out, example, dropout, seed, cut, weights):
    trained, x, matrices = made_from(weights, d_out, num_heads, example, 2)
    n, kind = x.shape[1], MultiHeadAttention if cut == "view, then transpose" else CutByViewAlone
    layer = kind(x.shape[-1], d_out, n, 0.0, num_heads)
    for mine, theirs in zip(layer.parameters(), matrices, strict=False):
        mine.copy_(theirs)
    state = check_heads(e, layer, (x, example - 1), dropout, seed, trained, "contexts, side by side")
    found = readouts(e)
    assert bands(e) == [*HEAD_COLOURS[:num_heads]]  # of the context vectors
    for table, matrix in zip(state.wide.values(), matrices, strict=True):
        assert_close(table, x[0] @ matrix.T)
    places = torch.arange(n * d_out).view(1, n, d_out)  # each entry's place tells which head gets it
    for head, part in enumerate(layer.split_heads(places)[0]):
        assert (state.owners.flatten()[part] == head).all()
    assert e.controls["cut"].disabled == (num_heads == 1)
    assert numbers(found["head_dim"]) == [d_out, num_heads, d_out / num_heads]
    assert numbers(found["parameters"]) == [state.parameters]
