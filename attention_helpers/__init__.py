"""The code that the attention notebooks share: what they build, and what looks inside it."""

from .dropout import Dropout
from .layers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    causal_mask,
)
from .probes import Leak, attention_maps, find_leak, influence, max_difference
from .sentences import Sentence, load_sentence
from .source import show_source

__all__ = [
    "CausalAttention",
    "Dropout",
    "Leak",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "SelfAttention_v1",
    "SelfAttention_v2",
    "Sentence",
    "attention_maps",
    "causal_mask",
    "find_leak",
    "influence",
    "load_sentence",
    "max_difference",
    "show_source",
]
