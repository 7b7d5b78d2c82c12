"""The families of models that we can read: what their files say of them, and which tensors they have."""

import math
from typing import NamedTuple

import numpy as np

from .tokenizer import token_at, tokens_in, wants_beginning


class Family(NamedTuple):
    """How a family differs from LLaMA, and the keys that only its files have."""

    halves: bool = True  # rotary positions pair entry i with i + head_dim / 2 in its files, not with its neighbour
    bias: bool = False  # of queries, keys and values
    qk_norm: bool = False  # RMSNorm of each head's queries and keys
    gemma: bool = False  # a scaled embedding, GELU, two more norms per block, local layers with a window
    keys: frozenset = frozenset()


WINDOW_KEYS = {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa"}
FAMILIES = {
    "llama": Family(halves=False),
    "qwen2": Family(bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma3": Family(qk_norm=True, gemma=True, keys=frozenset(WINDOW_KEYS)),
}
# The keys that we follow, after the family's name and a dot, and those that change nothing; any other stops us. Of keys
# without the family's name, we follow general.alignment and those of the tokenizer; the others are for people.
FOLLOWED = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
}  # fmt: skip
IDLE = {"vocab_size", "rope.scaling.original_context_length", "rope.scaling.finetuned", "tensor_data_layout"}
MOST_WIDE, MOST_CONTEXT = 2**20, 2**31
DIVISORS = "rope_freqs.weight"  # Llama 3's scaling: what each pair's frequency is divided by
GEMMA_27B = 62  # layers; only the largest of its family scales scores by another width, and no key says so


class ModelConfig(NamedTuple):
    """The sizes and constants of a model."""

    vocab_size: int  # tokens in the vocabulary
    d_model: int  # the width of the residual stream
    d_inner: int  # the hidden width of an MLP
    num_layers: int
    num_heads: int  # query heads per layer
    num_kv_heads: int
    head_dim: int  # the width of a head
    base: float  # of the rotary positions
    eps: float  # added to the mean square in RMSNorm
    context_length: int  # the longest text the model was trained on, in tokens
    end: int | None = None  # the id of the token that ends a text
    beginning: int | None = None  # the id of the token put before each text
    family: str = "llama"
    tied: bool = True  # whether the embedding doubles as the output layer
    factor: float = 1.0  # divides all frequencies (linear scaling)
    divisors: list | None = None  # divide each pair's frequency (Llama 3's scaling)
    window: int | None = None  # how many keys a query sees in a local layer
    local_base: float = 10_000.0  # of the rotary positions in local layers
    period: int = 6  # of so many layers, the last isn't local

    def is_local(self, layer):
        """Whether a layer's queries see only a window."""
        return self.window is not None and (layer + 1) % self.period != 0

    @property
    def scale(self):
        """What the scores are multiplied by."""
        by_width = self.family == "gemma3" and self.num_layers == GEMMA_27B
        return (self.d_model / self.num_heads if by_width else self.head_dim) ** -0.5


class Keys:
    """Reads a family's keys; ValueError that names a key if it's missing or its value can't be right."""

    def __init__(self, fields, family):
        self.fields, self.family = fields, family

    def __contains__(self, key):
        return f"{self.family}.{key}" in self.fields

    def get(self, key, default=None):
        name = f"{self.family}.{key}"
        if name not in self.fields and default is None:
            raise ValueError(f"it lacks {name}")
        return name, self.fields.get(name, default)

    def size(self, key, most=MOST_WIDE, default=None):
        name, value = self.get(key, default)
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(f"{name} must be a whole number from 1 to {most:,}, got {shown(value)}")
        return value

    def number(self, key, default=None):
        name, value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ValueError(f"{name} must be a finite number above 0, got {shown(value)}")
        return float(value)

    def same(self, key, expected):
        name, value = self.get(key, expected)
        if value != expected:
            raise ValueError(f"{name} must be {expected} here, got {shown(value)}")


def shown(value):
    return repr(value) if len(repr(value)) < 60 else f"{repr(value)[:60]}…"


def config_in(header, divisors=None):
    """The ModelConfig in a file's Header; divisors: what Llama 3's scaling divides frequencies by, if it has them.

    Errors: ValueError for another family, a key that we don't know or a value that can't be right.
    """
    fields = header.fields
    family = fields.get("general.architecture")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(f"its general.architecture must be one of {', '.join(FAMILIES)}, got {shown(family)}")
    known = FOLLOWED | IDLE | FAMILIES[family].keys
    for name in fields:
        if name.startswith(f"{family}.") and name.removeprefix(f"{family}.") not in known:
            raise ValueError(f"it has the key {name}, which we don't know how to follow")
    keys, tokens = Keys(fields, family), tokens_in(fields)
    config = ModelConfig(
        vocab_size=len(tokens),
        d_model=(width := keys.size("embedding_length")),
        d_inner=keys.size("feed_forward_length"),
        num_layers=keys.size("block_count"),
        num_heads=(heads := keys.size("attention.head_count", MOST_WIDE)),
        num_kv_heads=keys.size("attention.head_count_kv", default=heads),
        head_dim=keys.size("attention.key_length", default=max(width // heads, 1)),
        base=keys.number("rope.freq_base", default=10_000.0 if family == "llama" else None),
        eps=keys.number("attention.layer_norm_rms_epsilon"),
        context_length=keys.size("context_length", MOST_CONTEXT),
        end=token_at(fields, "eos_token_id", len(tokens)),
        beginning=token_at(fields, "bos_token_id", len(tokens)) if wants_beginning(fields) else None,
        family=family,
        tied="output.weight" not in header.tensors,
        factor=scaling_in(keys),
        divisors=divisors,
    )
    return checked(with_window(config, keys), keys, header)


def scaling_in(keys):
    """What linear scaling divides frequencies by, 1.0 without scaling; ValueError for another kind."""
    name, kind = keys.get("rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise ValueError(f"{name} must be 'none' or 'linear', got {shown(kind)}")
    return keys.number("rope.scaling.factor", 1.0) if kind == "linear" else 1.0


def with_window(config, keys):
    if not FAMILIES[config.family].gemma or "attention.sliding_window" not in keys:
        return config
    return config._replace(
        window=keys.size("attention.sliding_window", MOST_CONTEXT),
        local_base=keys.number("rope.freq_base_swa", 10_000.0),
        period=keys.size("attention.sliding_window_pattern", default=6),
    )


def checked(config, keys, header):
    """The same config; ValueError if its sizes can't go together."""
    heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
    if heads % kv_heads:
        raise ValueError(f"{keys.family}.attention.head_count_kv must divide the {heads} heads, got {kv_heads}")
    if width % 2:
        raise ValueError(f"a head's width must be even, got {width}")
    keys.same("attention.value_length", width)
    keys.same("rope.dimension_count", width)
    if config.divisors is not None and not (
        len(config.divisors) == width // 2 and all(0 < divisor < math.inf for divisor in config.divisors)
    ):
        raise ValueError(f"{DIVISORS} must hold {width // 2} finite numbers above 0")
    last = f"blk.{config.num_layers - 1}.attn_norm.weight"
    if last not in header.tensors:  # before any list of its length is made
        raise ValueError(f"it claims {config.num_layers:,} layers, but lacks {last}")
    return config


def layout(config):
    """Our name and the shape of every tensor, by its name in the file."""
    d, family = config.d_model, FAMILIES[config.family]
    names = {"token_embd.weight": ("embedding.weight", (config.vocab_size, d))}
    names |= {"output_norm.weight": ("norm.weight", (d,))}
    if not config.tied:
        names |= {"output.weight": ("output_layer.weight", (config.vocab_size, d))}
    for layer in range(config.num_layers):
        parts = of_layer(config, family).items()
        names |= {f"blk.{layer}.{theirs}": (f"blocks.{layer}.{ours}", shape) for theirs, (ours, shape) in parts}
    return names


def of_layer(config, family):
    """The same for one layer, without its number."""
    d, inner, per_head = config.d_model, config.d_inner, config.head_dim
    width, kv_width = config.num_heads * per_head, config.num_kv_heads * per_head
    rows = {"q": ("W_query", width), "k": ("W_key", kv_width), "v": ("W_value", kv_width)}
    parts = {"attn_norm.weight": ("norm_1.weight", (d,)), "ffn_norm.weight": ("norm_2.weight", (d,))}
    for theirs, (ours, size) in rows.items():
        parts[f"attn_{theirs}.weight"] = f"attention.{ours}.weight", (size, d)
        if family.bias:
            parts[f"attn_{theirs}.bias"] = f"attention.{ours}.bias", (size,)
    parts["attn_output.weight"] = "attention.out_proj.weight", (d, width)
    parts |= {"ffn_gate.weight": ("W_gate.weight", (inner, d)), "ffn_up.weight": ("W_up.weight", (inner, d))}
    parts["ffn_down.weight"] = "W_down.weight", (d, inner)
    if family.qk_norm:
        parts["attn_q_norm.weight"] = "attention.query_norm.weight", (per_head,)
        parts["attn_k_norm.weight"] = "attention.key_norm.weight", (per_head,)
    if family.gemma:
        parts["post_attention_norm.weight"] = "after_attention.weight", (d,)
        parts["post_ffw_norm.weight"] = "after_mlp.weight", (d,)
    return parts


def order_of(name, config, rows):
    """In which order we need a tensor's rows, so that entries that rotate together are neighbours; None for the file's.

    name: ours. A head's rows come as two halves in most families' files. Attention scores don't change if the rows of
    queries, of keys and of their norms move together.
    """
    turned = any(part in name for part in ("W_query", "W_key", "query_norm", "key_norm"))
    if not turned or not FAMILIES[config.family].halves:
        return None
    return np.arange(rows).reshape(-1, 2, config.head_dim // 2).swapaxes(1, 2).ravel()  # (rows,)
