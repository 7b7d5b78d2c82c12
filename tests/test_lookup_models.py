"""The trained weights in data/: how accurate they are, and the command that made them."""

import numpy as np
import pytest
import torch

from attention_helpers.explorers import lookup_models
from attention_helpers.training.lookup import LookupModel, LookupTask
from tools.training import train_lookup_models

MANY = LookupTask(questions=2, batch_size=2000)
each_set = pytest.mark.parametrize("width", lookup_models.WIDTHS)


def loaded(width, num_heads, path=lookup_models.FILE):
    reader = LookupModel(lookup_models.TASK, width, num_heads)
    with np.load(path) as sets:
        named = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in reader.state_dict()}
    reader.load_state_dict({name: torch.from_numpy(part).float() for name, part in named.items()})
    return reader.eval()


@torch.no_grad()
def answers_and_reads(reader):
    """The accuracies, (2,), and each head's mean weight on the pair of each question, (2, num_heads)."""
    x, answers = MANY.batch(torch.Generator().manual_seed(77))
    rows = reader.maps(x)[:, :, -1, :-1]  # (b, num_heads, pairs)
    asked = [x[:, :-1, 0] == x[:, -1:, n] - (n + 1) * MANY.letters for n in range(2)]
    return MANY.accuracy(reader(x), answers), torch.stack([(rows * pair[:, None]).sum(-1).mean(0) for pair in asked])


@each_set
def test_one_head_answers_one_question_and_leaves_the_other(width):
    accuracy, _ = answers_and_reads(loaded(width, 1))
    assert accuracy.min() < 0.35
    assert accuracy.max() > 0.75


@each_set
@pytest.mark.parametrize("num_heads", [2, 4])
def test_more_heads_answer_both_and_some_head_reads_each_pair(width, num_heads):
    accuracy, reads = answers_and_reads(loaded(width, num_heads))
    assert accuracy.min() > 0.97
    assert reads.max(dim=1).values.min() > 0.75
    assert reads.argmax(dim=1).unique().numel() == 2  # not the same head for both


def test_explorers_show_the_stored_sets_as_they_are():
    found, reader = lookup_models.trained(16, 2), loaded(16, 2)
    assert found.state.keys() == reader.attention.state_dict().keys()
    assert all(torch.equal(part, reader.attention.state_dict()[name]) for name, part in found.state.items())
    assert found.tokens[-1].endswith("?")
    assert found.x.shape == (7, 16)
    assert found.accuracy.min() > 0.97


def test_the_command_writes_what_explorers_read_and_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(train_lookup_models, "WIDTHS", [8])
    train_lookup_models.main(path=tmp_path / "few.npz", steps=2)
    once = loaded(8, 2, tmp_path / "few.npz")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = LookupModel(lookup_models.TASK, 8, 2)
    moved = [(a - b).abs().max() for a, b in zip(once.parameters(), untrained.parameters(), strict=True)]
    assert 1e-3 < max(moved) < 0.05  # two steps of AdamW at 0.01
