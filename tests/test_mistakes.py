"""The list of mistakes: each row breaks the classes that it belongs to in a way of its own, and leaks if it says so."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_course.mistakes import MISTAKES, mistakes_of, with_mistake
from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    find_leak,
    max_difference,
)

CLASSES = {
    SelfAttention_v1: lambda d_in, d_head, heads: (d_in, d_head),
    SelfAttention_v2: lambda d_in, d_head, heads: (d_in, d_head),
    CausalAttention: lambda d_in, d_head, heads: (d_in, d_head, 9, 0.0),
    MultiHeadAttentionWrapper: lambda d_in, d_head, heads: (d_in, d_head, 9, 0.0, heads),
    MultiHeadAttention: lambda d_in, d_head, heads: (d_in, d_head * heads, 9, 0.0, heads),
}


@pytest.mark.parametrize("layer_class", CLASSES)
@settings(max_examples=15, deadline=None)
@given(
    d_in=st.sampled_from([5, 7, 11]),
    widths=st.permutations([2, 3]),
    num_tokens=st.sampled_from([8, 9]),
    seed=st.integers(0, 2**31),
)
def test_each_row_is_a_mistake_of_its_own(layer_class, d_in, widths, num_tokens, seed):
    """At sizes that differ pairwise, as do their squares, so that no two of them can be taken for each other."""
    d_head, heads = widths
    rows = {}
    x = torch.randn(1, num_tokens, d_in, generator=torch.Generator().manual_seed(seed))
    x = x[0] if layer_class in (SelfAttention_v1, SelfAttention_v2) else x
    for mistake in [None, *mistakes_of(layer_class)]:
        made = with_mistake(layer_class, mistake) if mistake else layer_class
        torch.manual_seed(seed)
        layer = made(*CLASSES[layer_class](d_in, d_head, heads)).eval()
        rows[mistake] = layer(x).detach().nan_to_num(99.0)
        if mistake and x.ndim == 3 and layer(x).isfinite().all():
            assert bool(find_leak(layer, x)) == mistake.leaks, mistake.name
    for (one, ours), (other, theirs) in itertools.combinations(rows.items(), 2):
        assert ours.shape != theirs.shape or max_difference(ours, theirs) > 1e-4, (one and one.name, other.name)


def test_each_row_belongs_to_a_class():
    assert {row for layer_class in CLASSES for row in mistakes_of(layer_class)} == set(MISTAKES)


def test_a_row_without_text_to_replace_is_refused():
    [row] = [row for row in MISTAKES if row.name == "doesn't use out_proj"]
    with pytest.raises(ValueError, match="CausalAttention has no text"):
        with_mistake(CausalAttention, row)
