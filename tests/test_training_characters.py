"""The character model: its training data, the losses that tell masked from leaky, and what it writes."""

import pytest
import torch
from torch import nn

from attention_helpers import MultiHeadAttention, influence, max_difference
from attention_helpers.training.characters import (
    CharacterModel,
    Characters,
    LeakyMultiHeadAttention,
    generate_text,
    held_out_loss,
    load_text,
    prefix_losses,
)

TEXT = load_text()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def task():
    return Characters(TEXT)


def written(task, token_ids):
    return "".join(task.vocabulary[token_id] for token_id in token_ids.tolist())


def test_a_missing_text_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt is missing; expected there: a plain text"):
        load_text(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("text", "sizes", "error", "said"),
    [
        ("a" * 30, {"held_out": 20}, ValueError, "longer than window=32, got 10 and 20 characters"),
        ("a" * 99, {"held_out": 32}, ValueError, "longer than window=32, got 67 and 32 characters"),
        (TEXT, {"window": "32"}, TypeError, "window must be a whole number, got '32'"),
        (TEXT, {"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        (5, {}, TypeError, "text must be a string, got int"),
    ],
)
def test_what_is_no_text_to_learn_from(text, sizes, error, said):
    with pytest.raises(error) as caught:
        Characters(text, **sizes)
    assert said in str(caught.value)


def test_every_window_of_the_trained_part_is_drawn_and_every_one_of_the_rest_is_unseen():
    task = Characters("abcdefghijk", window=2, batch_size=200, held_out=5)  # abcdef, ghijk
    x, targets = task.batch(generator())
    drawn = {written(task, row) + written(task, target) for row, target in zip(x, targets, strict=True)}
    assert drawn == {"abbc", "bccd", "cdde", "deef"}
    assert written(task, task.train) + "|" + written(task, task.held_out) == "abcdef|ghijk"
    x, targets = task.unseen()
    assert [written(task, row) for row in x] == ["gh", "ij"]
    assert [written(task, row) for row in targets] == ["hi", "jk"]
    assert Characters("abcdef", window=2, held_out=3).unseen()[0].shape == (1, 2)  # the shortest possible


def test_the_loss_is_the_mean_over_all_characters_and_the_score_the_share_of_right_ones():
    task = Characters("abcd" * 9, window=2, held_out=4)
    outputs, targets = torch.randn(3, 2, 4, generator=generator()), torch.tensor([[0, 3], [1, 1], [2, 0]])
    shares = outputs.softmax(dim=-1)
    by_hand = [-shares[i, n, targets[i, n]].log() for i in range(3) for n in range(2)]
    assert max_difference(task.loss(outputs, targets), torch.stack(by_hand).mean()) < 1e-6
    right = nn.functional.one_hot(torch.tensor([[0, 3], [1, 1], [2, 3]]), 4).float()
    assert task.accuracy(right, targets).tolist() == [pytest.approx(5 / 6)]


def test_without_a_leak_all_positions_at_once_are_the_prefixes_one_by_one(task):
    """A causal model's usual validation loss is honest; a leaky model's differs from its loss over prefixes."""
    torch.manual_seed(0)
    for leaky in (False, True):
        model = CharacterModel(task, width=16, leaky=leaky)
        losses = prefix_losses(model, *task.unseen())
        assert losses.shape == (32,)
        assert (abs(losses.mean().item() - held_out_loss(model, task)) < 1e-5) is (not leaky)


def test_the_leaky_layer_reads_the_future_even_after_loading():
    torch.manual_seed(0)
    layer = LeakyMultiHeadAttention(6, 6, 5, 0.0, 2)
    x = torch.randn(1, 5, 6)
    assert influence(layer, x).perturbation[0, 4] > 0
    layer.load_state_dict(layer.state_dict())
    assert influence(layer, x).perturbation[0, 4] > 0


def test_a_model_is_the_sum_of_its_parts(task):
    torch.manual_seed(0)
    model = CharacterModel(task, width=16, num_heads=2, hidden=24).eval()
    x, _ = task.batch(generator())
    x = x[:, :7]
    tokens = model.embed(x) + model.position.weight[:7]
    first, bend, last = model.output_layer
    torch.nn.init.normal_(model.norm.weight)
    inner = first(model.norm(tokens + model.attention(tokens)))  # the residual, then the norm
    assert max_difference(model(x), last(nn.functional.gelu(inner))) < 1e-5
    assert inner.shape == (32, 7, 24)
    assert isinstance(bend, nn.GELU)
    assert isinstance(model.norm, nn.LayerNorm)
    assert max_difference(model.maps(x), model.attention.steps(tokens).weights) < 1e-6
    assert type(model.attention) is MultiHeadAttention
    assert type(CharacterModel(task, width=16, leaky=True).attention) is LeakyMultiHeadAttention


def test_dropout_acts_in_training_alone(task):
    torch.manual_seed(0)
    model = CharacterModel(task, width=16, dropout=0.5)
    x, _ = task.batch(generator())
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))
    assert model.attention.dropout.p == 0.5
    assert CharacterModel(task, width=16).attention.dropout.p == 0.0


@pytest.mark.parametrize(
    ("sizes", "error", "said"),
    [
        ({"hidden": -1}, ValueError, "hidden must be at least 1, got -1"),
        ({"hidden": 8.0}, TypeError, "hidden must be a whole number, got 8.0"),
        ({"leaky": 1}, TypeError, "leaky must be True or False, got 1"),
        ({"dropout": 1.0}, ValueError, "dropout must be at least 0 and below 1, got 1.0"),
        ({"width": 16, "num_heads": 3}, ValueError, "num_heads must divide d_out"),
    ],
)
def test_a_model_of_impossible_size(task, sizes, error, said):
    with pytest.raises(error) as caught:
        CharacterModel(task, **sizes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        (torch.zeros(1, 33, dtype=torch.long), ValueError, "x must hold at most 32 tokens, got 33 in (1, 33)"),
        (torch.full((1, 3), 48), ValueError, "x must hold token ids from 0 to 47, got 48"),
        (torch.zeros(1, 3), TypeError, "x must hold whole numbers, torch.int64 or torch.int32, got torch.float32"),
        ("The", TypeError, "x must be a torch.Tensor, got str"),
    ],
)
@pytest.mark.parametrize("name", ["forward", "maps"])
def test_what_is_not_of_the_models_task(task, name, x, error, said):
    with pytest.raises(error) as caught:
        getattr(CharacterModel(task, width=16), name)(x)
    assert said in str(caught.value)


def test_losses_are_those_in_eval_mode_and_ask_for_no_gradients(task):
    torch.manual_seed(0)
    model = CharacterModel(task, width=16, dropout=0.5)
    x, targets = task.unseen()
    whole = nn.functional.cross_entropy(model.eval()(x).transpose(1, 2), targets, reduction="none")  # (windows, window)
    losses = prefix_losses(model.train(), x, targets)
    assert max_difference(losses, whole.mean(dim=0)) < 1e-5
    assert not losses.requires_grad
    assert held_out_loss(model.train(), task) == pytest.approx(whole.mean().item())


class Alphabetical(nn.Module):
    """A model that's certain of the vocabulary's next letter, and records its input."""

    def __init__(self, task):
        super().__init__()
        self.size, self.number, self.read = len(task.vocabulary), nn.Parameter(torch.zeros(1)), []

    def forward(self, x):
        self.read.append(x[0].tolist())
        return 1e4 * nn.functional.one_hot((x + 1) % self.size, self.size)


def test_writing_reads_a_window_of_what_stands_there():
    task = Characters("abcdef" * 9, window=3, held_out=9)
    model = Alphabetical(task)
    assert generate_text(model, task, "ab", 4, generator()) == "cdef"
    assert model.read == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert generate_text(model, task, "fedcba", 1, generator()) == "b"
    assert model.read[-1] == [2, 1, 0]


def test_what_is_written_is_drawn_by_the_models_shares(task):
    torch.manual_seed(0)
    model, dice = CharacterModel(task, width=16).eval(), generator(1)
    by_hand, token_ids = [], [task.vocabulary.index(character) for character in "The"]
    for _ in range(5):
        shares = model(torch.tensor([token_ids + by_hand]))[0, -1].softmax(dim=-1)
        by_hand.append(torch.multinomial(shares, 1, generator=dice).item())
    before = torch.get_rng_state()
    assert generate_text(model, task, "The", 5, generator(1)) == written(task, torch.tensor(by_hand))
    assert torch.equal(torch.get_rng_state(), before)


def test_writing_goes_on_from_its_start_beyond_the_window(task):
    torch.manual_seed(0)
    model = CharacterModel(task, width=16)
    one = generate_text(model, task, "The town", 50, generator(3))
    assert len(one) == 50
    assert one == generate_text(model, task, "The town", 50, generator(3))
    assert one != generate_text(model, task, "The town", 50, generator(4))
    for start in ("", "Zoë"):
        with pytest.raises(ValueError, match="start must be some characters of"):
            generate_text(model, task, start, 5, generator())
    with pytest.raises(TypeError, match="start must be a string, got list"):
        generate_text(model, task, ["T"], 5, generator())
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        generate_text(model, task, "T", 0, generator())
