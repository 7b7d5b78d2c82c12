"""The character model: what it is trained on, the losses that tell masked from leaky, and what it writes."""

import pytest
import torch

from attention_helpers import influence, max_difference
from attention_helpers.beyond.characters import (
    CharacterModel,
    Characters,
    LeakyMultiHeadAttention,
    generate,
    held_out_loss,
    known_words,
    load_text,
    prefix_losses,
)

TEXT = load_text()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def task():
    return Characters(TEXT)


def written(task, codes):
    return "".join(task.alphabet[code] for code in codes.tolist())


def test_the_text_is_what_its_description_says():
    assert len(TEXT) > 12_000
    assert TEXT.isascii()
    sentences = [s.strip() for s in TEXT.replace("?", ".").replace("!", ".").replace("\n", " ").split(".")]
    assert len(set(sentences)) == len(sentences)
    assert max(len(sentence.split()) for sentence in sentences) <= 12


def test_a_missing_text_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt is missing; expected there: a plain text"):
        load_text(tmp_path / "none.txt")


def test_a_target_is_the_next_character_of_the_trained_part(task):
    x, targets = task.batch(generator())
    assert x.shape == targets.shape == (32, 32)
    assert torch.equal(x[:, 1:], targets[:, :-1])
    trained = TEXT[:-1500]
    for row, target in zip(x, targets, strict=True):
        assert written(task, row) + task.alphabet[target[-1]] in trained


def test_the_unseen_part_is_all_of_the_held_out_text_and_nothing_else(task):
    x, targets = task.unseen()
    assert written(task, x.flatten()) == TEXT[-1500:][: x.numel()]
    assert written(task, targets.flatten()) == TEXT[-1499:][: x.numel()]
    assert x.numel() > 1500 - 2 * task.window


def test_a_text_that_is_too_short():
    with pytest.raises(ValueError, match="longer than window=32, got 10 and 20 characters"):
        Characters("a" * 30, held_out=20)
    with pytest.raises(TypeError, match="window must be a whole number"):
        Characters(TEXT, window="32")


def test_without_a_leak_all_positions_at_once_are_the_prefixes_one_by_one(task):
    """A causal model's usual validation loss is honest; a leaky one's is not the same as over prefixes."""
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
    assert influence(layer, x).poke[0, 4] > 0
    layer.load_state_dict(layer.state_dict())
    assert influence(layer, x).poke[0, 4] > 0


def test_a_model_gives_a_score_for_every_next_character_and_its_maps(task):
    model = CharacterModel(task, width=16, num_heads=2, dropout=0.5).eval()
    x, _ = task.batch(generator())
    assert model(x).shape == (32, 32, len(task.alphabet))
    assert model(x[:, :5]).shape == (32, 5, len(task.alphabet))
    assert model.maps(x).shape == (32, 2, 32, 32)
    assert max_difference(model(x)[:, :5], model(x[:, :5])) < 1e-5


def test_position_matters_to_the_model(task):
    """Without positions, swapping two earlier characters would not move the last one's scores."""
    torch.manual_seed(0)
    model = CharacterModel(task, width=16)
    x = torch.tensor([[1, 2, 3, 4]])
    assert max_difference(model(x)[:, -1], model(x[:, [1, 0, 2, 3]])[:, -1]) > 1e-4
    torch.nn.init.zeros_(model.position.weight)
    assert max_difference(model(x)[:, -1], model(x[:, [1, 0, 2, 3]])[:, -1]) < 1e-5


def test_writing_goes_on_from_its_start_beyond_the_window(task):
    torch.manual_seed(0)
    model = CharacterModel(task, width=16)
    one = generate(model, task, "The town", 50, generator(3))
    assert len(one) == 50
    assert one == generate(model, task, "The town", 50, generator(3))
    assert one != generate(model, task, "The town", 50, generator(4))
    for start in ("", "Zoë"):
        with pytest.raises(ValueError, match="start must be some characters of"):
            generate(model, task, start, 5, generator())


def test_known_words():
    assert known_words("xx The boat, then qqq! zz", "the Boat. Then") == 0.75
    assert known_words("cut", "cut") == 0.0
