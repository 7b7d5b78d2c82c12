"""What the explorers of lessons 1 to 6 must show in any state, recomputed with the layers or with torch's functions."""

import explorer_page as page
import numpy as np
import pytest
import torch
from explorer_page import check_bars, check_dropped, check_maps, check_planes, near, numbers, tips
from made import SENTENCE
from torch.testing import assert_close

from attention_course.explorers import dropout
from attention_course.explorers.lookup_models import examples, letters_of, load_lookup
from attention_course.plots import GREY
from attention_helpers import MultiHeadAttention, attention_maps, causal_mask, load_sentence
from attention_helpers.dropout import draw_dropout_from

TOKENS, X = SENTENCE.tokens, SENTENCE.embeddings


def check_scores(e, query, temperature, sentence):
    tokens = sentence.split(", ")
    x = X[[TOKENS.index(token) for token in tokens]]
    weights = torch.softmax(x @ x.T / temperature, dim=-1)
    check_maps(e, weights[None], tokens)
    assert page.framed_rows(e) == near(query, off=0.02)
    check_bars(e, score=x @ x[query], weight=weights[query], embedding=x[query], context=weights[query] @ x)
    assert f"{weights[query].max():.2f}" in page.figures(e.said)


def check_qkv(e, made):
    tokens, x = load_sentence("lookup")
    queries, keys, values = x, x, x
    if made != "embeddings":
        queries, keys = x[:, :3], x @ (10 * torch.eye(7)[:, :3] - 10 * (made == "matrices") * torch.eye(7)[:, 6:])
        values = x[:, 3:6]
    weights = torch.softmax(queries @ keys.T, dim=-1)
    check_maps(e, weights[None], tokens)
    check_maps(e, (queries @ keys.T)[None], tokens, "score of {} for {}", limit=(queries @ keys.T).abs().max())
    made = {"queries": queries, "keys": keys, "values": values, "context": weights @ values}
    for name, table in made.items():
        assert tips(e, f"{name}, ") == near(table, off=1e-4)
    cells = [words.rpartition(": ")[0] for words in page.tooltips(e, "queries, ")]
    assert cells == [f"queries, {token}, entry {entry}" for token in tokens for entry in "ABC123?"[: queries.shape[1]]]


def check_scaling(e, d_k, seed, scaling):
    queries, keys = torch.randn(2, 6, d_k, generator=torch.Generator().manual_seed(seed))
    scores = queries @ keys.T
    scaled = scores / d_k**0.5 if scaling else scores
    weights = torch.softmax(scaled, dim=-1)
    check_maps(e, scaled[None], "123456", "query {} meets key {}", limit=scores.abs().max())
    check_maps(e, weights[None], "123456", "query {} looks at key {}")
    check_bars(e, "width", entropy=torch.distributions.Categorical(weights).entropy() / np.log(2))
    assert {f"{scaled.var():.2g}", f"{weights.max():.2f}"} <= {*page.figures(e.said)}


def check_mask(e, mask, place):
    tokens, future, (pairs, x) = e.arrays.tokens, causal_mask(4) & mask, load_sentence("lookup")
    assert tokens[place] == "B ?"
    letters, digits, question = x[[pairs.index(token) for token in tokens]].split((3, 3, 1), dim=1)
    scores = (letters @ (10 * letters - 10 * question).T / 3**0.5).masked_fill(future, -torch.inf)
    weights = scores.softmax(dim=-1)
    check_maps(e, weights[None], tokens, hidden=future)
    check_maps(e, scores[None], tokens, "score of {} for {}", hidden=future, limit=10 / 3**0.5)
    check_bars(e, read=(weights @ digits)[place])
    assert page.framed_rows(e) == near(place, place, off=0.02)
    assert numbers(e.said)[-1:] == near(weights[place].max())


def check_dropout(e, step, p):
    """What is stored is shown; test_stored_models.py trains it again."""
    at = dropout.RATES.index(p), step // 5
    with np.load(dropout.RUNS_FILE) as runs:
        check_maps(e, runs["maps"][at][None], [f"day {n}" for n in range(1, 7)], hidden=causal_mask(6))
        assert numbers(e.said) == near(step, p, runs["losses"][at])
    [crosses] = page.paths(page.tree_of(e), stroke_width="1.5") or [0]
    assert crosses / 21 == pytest.approx(p, abs=(p > 0) * 0.35)  # by chance, but never without dropout


def check_layer(e, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    state, moves, future = e.arrays, e.arrays.influence, causal_mask(6)
    torch.manual_seed(seed)
    layer = draw_dropout_from(MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias))
    torch.manual_seed(seed)
    assert_close(state.result, layer.train(training)(X[None])[0])
    check_dropped(e, state.shown, attention_maps(layer.eval(), X[None])[0][0], dropout * training)
    assert state.size.endswith(f", {sum(each.numel() for each in layer.parameters())} parameters")
    assert {verdict.sign for verdict in state.verdicts.values()} == {"✓"}
    check_maps(e, state.shown, TOKENS, hidden=future, limit=1)
    assert not moves[future].any()
    check_maps(e, moves[None], TOKENS, "perturbing {1} moves {0} by", limit=moves.max(), colours=[GREY])


@torch.no_grad()
def check_keywidth(e, d_out, step, asked):
    model, (_, x, answers) = load_lookup(1, d_out, 1, step), examples(1)
    right, letters = (model(x).argmax(dim=-1) == answers)[:, 0].float(), x[:, -1, 0] - 10
    number = (letters == asked).nonzero()[0]
    tokens, weights = model.task.words(x[number][0]), attention_maps(model, x[number])[0][0, 0, -1]
    accuracy = torch.stack([right[letters == n].mean() for n in range(10)])
    check_bars(e, weight=weights, accuracy=accuracy)
    row = {token[0]: weight for token, weight in zip(tokens[:-1], weights.tolist(), strict=False)}
    check_planes(e, [(letters_of(model)[1][0], [row.get(name) for name in "ABCDEFGHIJ"])])
    assert numbers(e.said) == near(d_out, step, accuracy.mean())


def cut_heads(wide, num_heads, cut="view, then transpose"):
    """A table (num_tokens, d_out) as heads, (num_heads, num_tokens, head_dim)."""
    if cut == "view alone":
        return wide.view(num_heads, len(wide), -1)
    return wide.view(len(wide), num_heads, -1).transpose(0, 1)


def weights_of(kind, num_heads, d_out, example, hands):
    """The trained model, or None; the shown sentence's x (num_tokens, d_in); W_query, W_key and W_value."""
    if kind == "trained":
        trained = load_lookup(2, d_out, num_heads)
        return trained, trained.embed(examples(2).x[example - 1]).sum(dim=1), [*trained.attention.parameters()][:3]
    x = load_sentence("two_lookups").embeddings
    letter, digit, first, second = torch.eye(12).split(3)
    if example == 2:
        x[[1, 2], 3:6] = x[[2, 1], 3:6]
    queries = torch.cat((first, second)) if hands == 2 else first + second
    return None, x, (queries, 10 * letter.repeat(hands, 1), digit.repeat(hands, 1))


def check_heads(e, trained, wide, dropout, example):
    """What both explorers of heads show; wide: the heads' queries, keys and values; trained: the model, or None."""
    state, (queries, keys, values), hidden = e.arrays, wide, causal_mask(wide[0].shape[1])
    scores = (queries @ keys.mT / keys.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    check_dropped(e, state.weights, scores.softmax(dim=-1), dropout)
    check_maps(e, state.weights, state.tokens, hidden=hidden)
    context = (state.weights @ values).transpose(0, 1).flatten(1)
    last = tips(e, f"{state.tokens[-1]}, entry ")[-context.shape[1] :]
    assert last == near(context[-1], off=6e-3 if trained else 1e-4)
    planes = zip(keys, state.weights[:, -1].tolist(), strict=True)
    check_planes(e, [*planes] if trained else [])
    if trained:
        logits = trained.output_layer(trained.attention.out_proj(context[-1])).view(2, 10)
        _, x, answers = examples(2)
        assert state.answers == (logits.argmax(dim=-1).tolist(), answers[example - 1].tolist())
        right = (trained(x).argmax(dim=-1) == answers).float().mean(dim=0)
        assert dropout or state.accuracy.tolist() == near(right)
        assert numbers(e.said)[-2:] == near(state.accuracy)


@torch.no_grad()
def check_wrapper(e, num_heads, d_out, example, dropout, seed, weights):
    """The wrapper's heads give what one layer of all heads gives, which notebook 06 shows."""
    width = num_heads * d_out
    trained, x, matrices = weights_of(weights, num_heads, width, example, hands=num_heads)
    check_heads(e, trained, [cut_heads(x @ matrix.T, num_heads) for matrix in matrices], dropout, example)
    one = 3 * d_out * x.shape[1]
    assert numbers(page.readouts(e)["width, parameters"]) == [num_heads, d_out, width, num_heads, one, num_heads * one]


@torch.no_grad()
def check_split(e, num_heads, d_out, example, dropout, seed, cut, weights):
    trained, x, matrices = weights_of(weights, num_heads, d_out, example, hands=2)
    wide, owners = [x @ matrix.T for matrix in matrices], e.arrays.owners
    check_heads(e, trained, [cut_heads(table, num_heads, cut) for table in wide], dropout, example)
    assert_close([*e.arrays.wide.values()], wide)
    assert (cut_heads(owners, num_heads, cut) == torch.arange(num_heads).view(-1, 1, 1)).all()  # which head gets each
    assert numbers(page.readouts(e)["parameters"]) == [3 * x.shape[1] * d_out + d_out**2 + d_out]
