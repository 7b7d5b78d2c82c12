"""What notebook 13 says of the heads of its model, on texts that the notebook doesn't use."""

import pytest
import torch

from attention_helpers.language_model.head_roles import (
    best_heads,
    look_without_path,
    loss,
    mean_contexts,
    repeated_tokens,
    weight_at,
)

INDUCTION = [(18, 6), (17, 3), (17, 4), (17, 5), (18, 7)]
SOURCE = (16, 0)  # the previous-token head
MANY = range(500, 504)  # seeds: one text each
ORDINARY = [
    "After the storm, the farmers walked along the fences and counted how many posts had fallen.",
    "A violin is tuned by turning four wooden pegs, but in dry winters they slip again and again.",
    "She opened the letter on the bus, read two lines, smiled, and put it back into her pocket.",
    "Copper conducts heat well, so cooks like pans that have a thin layer of it at the bottom.",
    "Most birds build a new nest each spring, although some storks return to one for decades.",
]
each_text = pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text.split()[0])


pytestmark = pytest.mark.slow  # make test runs the notebook itself


def texts_of(model, seeds=MANY):
    return torch.cat([repeated_tokens(model, seed=seed) for seed in seeds])


def induction_scores(maps):
    """(b, 5)"""
    scores = weight_at(maps, 31, start=32)  # (b, num_layers, num_heads)
    return torch.stack([scores[:, layer, head] for layer, head in INDUCTION], dim=1)


def losses(model, token_ids, ablate=()):
    """The loss on each text's second half, (b,)."""
    return torch.tensor([loss(model, one[None], 33, ablate) for one in token_ids])


@pytest.mark.parametrize("seed", MANY)
def test_the_five_are_the_same_for_four_texts_but_not_for_four_repetitions(language_model, seed):
    scores = weight_at(language_model.look(repeated_tokens(language_model, seed=seed, texts=4)).maps, 31, start=32)
    assert set(best_heads(scores.mean(dim=0))) == set(INDUCTION)
    four = repeated_tokens(language_model, 25, seed, texts=2).repeat(1, 2)  # each 25 tokens four times
    maps = language_model.look(four).maps.mean(dim=0)
    best = best_heads(sum(weight_at(maps, distance, start=75) for distance in (24, 49, 74)))
    assert set(INDUCTION) - set(best) == {(18, 7)}


def test_without_the_path_to_the_keys_no_induction_head_finds_its_token(language_model):
    token_ids = texts_of(language_model)
    assert induction_scores(language_model.look(token_ids).maps).min() > 0.4
    without = {
        to: look_without_path(language_model, token_ids, SOURCE, to).maps for to in ("keys", "queries", "values")
    }
    assert induction_scores(without["keys"]).max() < 0.03
    assert induction_scores(without["queries"])[:, 0].min() > 0.6
    assert induction_scores(without["values"]).min() > 0.35


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_only_the_previous_token_head_of_its_layer_is_missed(language_model, kind):
    token_ids = texts_of(language_model)
    means = mean_contexts(language_model, repeated_tokens(language_model, seed=499, texts=2))
    replaced = means if kind == "mean" else torch.zeros_like(means)
    intact = losses(language_model, token_ids)
    for head in range(9):
        rise = losses(language_model, token_ids, {(16, head): replaced[16, head]}) - intact
        assert rise.min() > 4 if (16, head) == SOURCE else rise.max() < 0.6, head
    assert (losses(language_model, token_ids, {head: replaced[head] for head in INDUCTION}) - intact).min() > 5


@each_text
def test_on_an_ordinary_text_neither_is_missed_until_it_is_said_twice(language_model, text):
    once = language_model.encode(text)
    for heads in (INDUCTION, [SOURCE], [(18, 8)]):
        assert abs(loss(language_model, once, ablate=heads) - loss(language_model, once)) < 0.1, (text, heads)
    twice, start = once.repeat(1, 2), once.shape[1] + 1
    again, without = loss(language_model, twice, start), loss(language_model, twice, start, INDUCTION)
    assert again < loss(language_model, once) / 2
    assert without > again + 0.5, text


@each_text
def test_the_sink_gets_the_weight_and_has_a_short_value(language_model, text):
    x = {}
    hook = language_model.blocks[18].register_forward_hook(lambda _, inputs, result, x=x: x.update(cache=result[2]))
    head = language_model.look(language_model.encode(text)).maps[0, 18, 8]
    hook.remove()
    lengths = x["cache"].values[0, 8 // 3].norm(dim=-1)  # (num_tokens,)
    assert head[1:, 0].min() > 0.98
    assert lengths[0] < lengths[1:].mean() / 10
    first = language_model.encode(text)[:, :1]
    again = torch.cat((first, language_model.encode(text)), dim=1)
    pair = language_model.look(again).maps[0, 18, 8, -1, :2]
    assert pair.min() > 0.4, "a copy that has seen only its like is a sink too"
    later = torch.cat((language_model.encode(text)[:, :2], first, language_model.encode(text)[:, 2:]), dim=1)
    assert language_model.look(later).maps[0, 18, 8, -1, 2] < 0.05, "a copy after another token isn't"
