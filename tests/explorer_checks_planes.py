"""What the explorers of trained lookups must show in any state (lessons 2, 5 and 6), recomputed with the layers."""

import pytest
import torch
from explorer_page import check_maps, keys_of_planes, near, numbers, paths, readouts, tips, tree_of
from torch.testing import assert_close

from attention_course.explorers.lookup_models import examples, letters_of, load_lookup
from attention_helpers import MultiHeadAttention, attention_maps, causal_mask, load_sentence


def check_plane(shown, keys, last, weights):
    """A plane has its keys where the layer has them, up to one scale, each as full as its weight.

    last: the keys that set the scale; weights: by key, None where there's no such token.
    """
    squares, points = shown
    if keys.shape[1] <= 2:
        wide = 0.86 if keys.shape[1] == 1 else 0.58
        spots = (keys * wide / last.norm(dim=1).max().clamp(min=1e-9)).clamp(-1, 1)
        assert points[:, : keys.shape[1]].flatten().tolist() == near(spots, off=0.01)
    for (words, square), weight in zip(squares, weights, strict=True):
        assert numbers(words)[-1:] == ([] if weight is None else near(weight))
        assert float(square.get("fill-opacity")) == pytest.approx(min(weight or 0, 1), abs=5.1e-3)


@torch.no_grad()
def check_keywidth(e, d_out, step, asked):
    state, model, (_, x, answers) = e.arrays, load_lookup(1, d_out, 1, step), examples(1)
    right, letters = (model(x).argmax(dim=-1) == answers)[:, 0], x[:, -1, 0] - 10
    number = (letters == asked).nonzero()[0]
    weights = attention_maps(model, x[number])[0][0, 0, -1]
    assert state.tokens == model.task.words(x[number][0])
    assert tips(e, ", weight: ") == near(weights, off=1e-4)
    shares = [right[letters == n].float().mean() for n in range(10)]
    assert tips(e, ", accuracy: ") == near(shares, off=1e-4)
    [shown] = keys_of_planes(e)
    row = {token[0]: weight for token, weight in zip(state.tokens[:-1], weights.tolist(), strict=False)}
    keys, last = (letters_of(each)[1][0] for each in (model, load_lookup(1, d_out)))
    check_plane(shown, keys, last, [row.get(name) for name in "ABCDEFGHIJ"])
    assert numbers(e.said) == near(d_out, step, torch.stack(shares).mean())


class CutByViewAlone(MultiHeadAttention):
    def split_heads(self, x):
        return x.reshape(len(x), self.num_heads, -1, self.head_dim)


def make_layer(kind, weights, num_heads, d_out, example, hands):
    """The trained model, or None; the shown sentence's x (1, num_tokens, d_in); a layer of the explorer's matrices."""
    if weights == "trained":
        trained = load_lookup(2, d_out, num_heads)
        x, given = trained.embed(examples(2).x[[example - 1]]).sum(dim=2), trained.attention.parameters()
    else:
        trained, x = None, load_sentence("two_lookups").embeddings[None]
        letter, digit, first, second = torch.eye(12).split(3)
        if example == 2:
            x[0, [1, 2], 3:6] = x[0, [2, 1], 3:6]
        queries = torch.cat((first, second)) if hands == 2 else first + second
        given = queries, 10 * letter.repeat(hands, 1), digit.repeat(hands, 1)
    layer = kind(x.shape[-1], d_out, x.shape[1], 0.0, num_heads)
    for mine, theirs in zip(layer.parameters(), given, strict=False):
        mine.copy_(theirs)
    return trained, x, layer


def check_heads(e, trained, x, layer, dropout, example):
    """What both explorers of heads show of a layer for x (1, num_tokens, d_in); trained: the model, or None."""
    state, future, made = e.arrays, causal_mask(x.shape[1]), attention_maps(layer, x)[0][0]
    keys, values = (layer.split_heads(each(x))[0] for each in (layer.W_key, layer.W_value))
    gone = (state.weights == 0) & (made > 0)
    assert dropout or not gone.any()
    assert_close(state.weights, torch.where(gone, 0, made / (1 - dropout)))
    assert_close(state.context, (state.weights @ values).transpose(0, 1).flatten(1))
    check_maps(e, state.weights, state.tokens, hidden=future)
    assert sum(paths(tree_of(e), stroke_width="1.5")) == (state.dropped & ~future).sum()
    said = tips(e, ", entry ")[-state.context.numel() :]
    assert said == near(state.context, off=6e-3 if trained else 1e-4)
    planes = [*keys_of_planes(e)]
    assert len(planes) == (len(made) if trained else 0)
    for shown, mine, weights in zip(planes, keys, state.weights[:, -1].tolist(), strict=False):
        check_plane(shown, mine, mine, weights)
    if trained:
        logits = trained.output_layer(layer.out_proj(state.context[-1])).view(2, 10)
        _, x, answers = examples(2)
        assert state.answers == (logits.argmax(dim=-1).tolist(), answers[example - 1].tolist())
        right = (trained(x).argmax(dim=-1) == answers).float().mean(dim=0)
        assert dropout or state.accuracy.tolist() == near(right)
        assert numbers(e.said)[-2:] == near(state.accuracy)


@torch.no_grad()
def check_wrapper(e, num_heads, d_out, example, dropout, seed, weights):
    """The wrapper's heads give what one layer of all heads gives, which notebook 06 shows."""
    width = num_heads * d_out
    trained, x, layer = make_layer(MultiHeadAttention, weights, num_heads, width, example, hands=num_heads)
    check_heads(e, trained, x, layer, dropout, example)
    one = 3 * d_out * x.shape[-1]
    assert numbers(readouts(e)["width, parameters"]) == [num_heads, d_out, width, num_heads, one, num_heads * one]


@torch.no_grad()
def check_split(e, num_heads, d_out, example, dropout, seed, cut, weights):
    kind = MultiHeadAttention if cut == "view, then transpose" else CutByViewAlone
    trained, x, layer = make_layer(kind, weights, num_heads, d_out, example, hands=2)
    check_heads(e, trained, x, layer, dropout, example)
    for table, matrix in zip(e.arrays.wide.values(), layer.parameters(), strict=False):
        assert_close(table, x[0] @ matrix.T)
    places = torch.arange(e.arrays.owners.numel()).view(1, -1, d_out)  # each entry's place tells which head gets it
    for head, part in enumerate(layer.split_heads(places)[0]):
        assert (e.arrays.owners.flatten()[part] == head).all()
    assert numbers(readouts(e)["parameters"]) == [sum(each.numel() for each in layer.parameters())]
