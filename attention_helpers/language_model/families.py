"""The families of models that we can read: what their files say of them, and which tensors they have."""

import math
from typing import NamedTuple

import numpy as np

from .tokenizer import token_at, tokens_in, wants_beginning


class Family(NamedTuple):
    """How a family differs from LLaMA."""

    halves: bool = True  # rotary positions pair entry i with i + head_dim / 2 in its files, not with its neighbour
    bias: bool = False  # of queries, keys and values
    qk_norm: bool = False  # RMSNorm of each head's queries and keys
    gemma: bool = False  # a scaled embedding, GELU, two more norms per block, local layers with a window


WINDOW_KEYS = {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa"}
FAMILIES = {
    "llama": Family(halves=False),
    "qwen2": Family(bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma3": Family(qk_norm=True, gemma=True),
}
# The keys that we follow, after the family's name and a dot, and those that change nothing; any other stops us. Of keys
# without the family's name, we follow general.alignment and those of the tokenizer; the others are for people.
FOLLOWED = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
}  # fmt: skip
IDLE = {"vocab_size", "rope.scaling.original_context_length", "rope.scaling.finetuned", "tensor_data_layout"}
MOST = 2**31  # of any size
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


def number(fields, name, default=None, most=None):
    """A number among a file's keys: whole and from 1 to `most`, or without it, finite and above 0.

    Errors: ValueError that names the key if it's missing or its value is another one.
    """
    value = fields.get(name, default)
    if value is None:
        raise ValueError(f"it lacks {name}")
    kinds, rule = ((int,), f"whole number from 1 to {most:,}") if most else ((int, float), "finite number above 0")
    if type(value) not in kinds or not 0 < value < math.inf or value > (most or value):
        raise ValueError(f"{name} must be a {rule}, got {value!r}")
    return value


def config_in(header):
    """The ModelConfig in a file's Header, except for the divisors, which are a tensor.

    Errors: ValueError for another family, a key that we don't know or a value that can't be right.
    """
    fields = header.fields
    family = fields.get("general.architecture")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(f"its general.architecture must be one of {', '.join(FAMILIES)}, got {family!r}")
    known = {f"{family}.{key}" for key in FOLLOWED | IDLE | (WINDOW_KEYS if FAMILIES[family].gemma else set())}
    if unknown := [name for name in fields if name.startswith(f"{family}.") and name not in known]:
        raise ValueError(f"it has the key {unknown[0]}, which we don't know how to follow")
    size = lambda key, default=None: number(fields, f"{family}.{key}", default, MOST)  # noqa: E731
    real = lambda key, default=None: float(number(fields, f"{family}.{key}", default))  # noqa: E731
    tokens, width, heads = tokens_in(fields), size("embedding_length"), size("attention.head_count")
    window = FAMILIES[family].gemma and f"{family}.attention.sliding_window" in fields
    config = ModelConfig(
        vocab_size=len(tokens),
        d_model=width,
        d_inner=size("feed_forward_length"),
        num_layers=size("block_count"),
        num_heads=heads,
        num_kv_heads=size("attention.head_count_kv", heads),
        head_dim=size("attention.key_length", max(width // heads, 1)),
        base=real("rope.freq_base", 10_000.0 if family == "llama" else None),
        eps=real("attention.layer_norm_rms_epsilon"),
        context_length=size("context_length"),
        end=token_at(fields, "eos_token_id", len(tokens)),
        beginning=token_at(fields, "bos_token_id", len(tokens)) if wants_beginning(fields) else None,
        family=family,
        tied="output.weight" not in header.tensors,
        factor=real("rope.scaling.factor", 1.0) if is_scaled(fields, family) else 1.0,
        window=size("attention.sliding_window") if window else None,
        local_base=real("rope.freq_base_swa", 10_000.0),
        period=size("attention.sliding_window_pattern", 6),
    )
    check_sizes(config, fields, header.tensors)
    return config


def is_scaled(fields, family):
    """Whether frequencies may be scaled, linearly; ValueError for another kind of scaling."""
    kind = fields.get(f"{family}.rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise ValueError(f"{family}.rope.scaling.type must be 'none' or 'linear', got {kind!r}")
    return kind == "linear"


def check_sizes(config, fields, tensors):
    """ValueError if a config's sizes can't go together."""
    width, layers = config.head_dim, config.num_layers
    if config.num_heads % config.num_kv_heads:
        raise ValueError(f"its KV heads must divide the {config.num_heads} heads, got {config.num_kv_heads}")
    if width % 2:
        raise ValueError(f"a head's width must be even, got {width}")
    for name in (f"{config.family}.attention.value_length", f"{config.family}.rope.dimension_count"):
        if fields.get(name, width) != width:
            raise ValueError(f"{name} must be {width}, a head's width, got {fields[name]!r}")
    if layers > len(tensors):  # before any list of its length is made
        raise ValueError(f"it claims {layers:,} layers, but has only {len(tensors):,} tensors")


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
    if not FAMILIES[config.family].halves or name.split(".")[-2] not in ("W_query", "W_key", "query_norm", "key_norm"):
        return None
    return np.arange(rows).reshape(-1, 2, config.head_dim // 2).swapaxes(1, 2).ravel()  # (rows,)
