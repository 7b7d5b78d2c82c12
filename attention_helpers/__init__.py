"""The code that the attention notebooks share, in the order in which the course introduces it.

Importing it loads torch and nothing heavier; figures are in `attention_helpers.plots`.
"""

from .sentences import Sentence, load_sentence
from .core import attention_scores, attention_weights, causal_mask, context_vectors
from .source import show_source
from .layers import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from .layers import SelfAttention_v1, SelfAttention_v2, Steps
from .probes import Influence, Leak, find_leak, influence, max_difference
from .trace import Trace, trace
from .dropout import Dropout

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
