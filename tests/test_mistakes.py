"""The list of mistakes: each row breaks the classes that it belongs to in a way of its own, and leaks if it says so."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import ALL  # which also chooses how many examples are tried

from attention_course.judge.twins import rows_of_the_list
from attention_course.mistakes import MISTAKES, mistakes_of, with_mistake
from attention_helpers import CausalAttention, find_leak, layers, max_difference
from attention_helpers.modern.positions import RotaryAttention

CLASSES = [getattr(layers, name) for name in ALL] + [RotaryAttention]


def sizes_of(layer_class, d_in, head_dim, heads):
    if layer_class is RotaryAttention:
        return d_in, 4 * heads, heads, heads
    more = {"CausalAttention": (d_in, head_dim), "MultiHeadAttentionWrapper": (d_in, head_dim)}
    sizes = more.get(layer_class.__name__, (d_in, head_dim * heads))
    if layer_class.__name__.startswith("SelfAttention"):
        return d_in, head_dim
    return (*sizes, 10, 0.0, heads) if layer_class is not CausalAttention else (*sizes, 10, 0.0)


@pytest.mark.parametrize("layer_class", CLASSES)
@settings(max_examples=min(30, settings().max_examples))  # each makes up to forty layers
@given(
    d_in=st.sampled_from([5, 7, 11]),
    widths=st.permutations([2, 3]),
    num_tokens=st.sampled_from([8, 10]),
    seed=st.integers(0, 2**31),
)
def test_each_row_is_a_mistake_of_its_own(layer_class, d_in, widths, num_tokens, seed):
    """At sizes that differ pairwise, as do their squares; on one sentence of three, two rows can agree by chance."""
    rows = {}
    sentences = 2 * torch.randn(3, 1, num_tokens, d_in, generator=torch.Generator().manual_seed(seed))
    if layer_class.__name__.startswith("SelfAttention"):
        sentences = sentences[:, 0]
    x = sentences[0]
    for mistake in [None, *mistakes_of(layer_class)]:
        made = with_mistake(layer_class, mistake) if mistake else layer_class
        torch.manual_seed(seed)
        layer = made(*sizes_of(layer_class, d_in, *widths)).eval()
        output = (lambda x, layer=layer: layer(x)[0]) if layer_class is RotaryAttention else layer
        rows[mistake] = torch.stack([output(each).detach() for each in sentences]).nan_to_num(99.0)
        if mistake and x.ndim == 3 and output(x).isfinite().all():
            assert bool(find_leak(output, x)) == mistake.leaks, mistake.name
    for (one, ours), (other, theirs) in itertools.combinations(rows.items(), 2):
        assert ours.shape != theirs.shape or max_difference(ours, theirs) > 1e-4, (one and one.name, other.name)


def test_each_row_belongs_to_a_class_or_to_the_judges_twins():
    assert {row for layer_class in CLASSES for row in mistakes_of(layer_class)} | {*rows_of_the_list()} == {*MISTAKES}


def test_a_row_without_text_to_replace_is_refused():
    [row] = [row for row in MISTAKES if row.name == "doesn't use out_proj"]
    with pytest.raises(ValueError, match="CausalAttention has no text"):
        with_mistake(CausalAttention, row)
