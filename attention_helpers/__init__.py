"""The code that the attention notebooks share. Figures are in `attention_helpers.plots`."""

from .core import attention_scores, attention_weights, causal_mask, context_vectors
from .dropout import Dropout
from .layers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    Steps,
)
from .operations import Trace, trace
from .probes import Influence, Leak, find_leak, influence, max_difference
from .sentences import Sentence, load_sentence
from .source import show_source

__all__ = [
    "CausalAttention",
    "Dropout",
    "Influence",
    "Leak",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "SelfAttention_v1",
    "SelfAttention_v2",
    "Sentence",
    "Steps",
    "Trace",
    "attention_scores",
    "attention_weights",
    "causal_mask",
    "context_vectors",
    "find_leak",
    "influence",
    "load_sentence",
    "max_difference",
    "show_source",
    "trace",
]
