"""The families of models that we can read: what their GGUF files say of them, and what their tensors are called."""

from typing import NamedTuple

from .tokenizer import LLAMA3


class Family(NamedTuple):
    """How a family differs from LLaMA."""

    halves: bool = True  # rotary positions pair entry i with i + head_dim / 2 in its files, not with its neighbour
    bias: bool = False  # of queries, keys and values
    qk_norm: bool = False  # RMSNorm of each head's queries and keys
    gemma: bool = False  # a scaled embedding, GELU, two more norms per block, local layers with a window


FAMILIES = {
    "llama": Family(halves=False),
    "qwen2": Family(bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma3": Family(qk_norm=True, gemma=True),
}
# A file's keys, after the family's name and a dot. We can't follow any other, so it stops us.
NEEDED = {"d_model": "embedding_length", "d_inner": "feed_forward_length", "num_layers": "block_count"}
NEEDED |= {"num_heads": "attention.head_count", "eps": "attention.layer_norm_rms_epsilon"}
NEEDED |= {"context_length": "context_length"}
OPTIONAL = {"num_kv_heads": "attention.head_count_kv", "head_dim": "attention.key_length"}
OPTIONAL |= {"base": "rope.freq_base", "factor": "rope.scaling.factor"}
GEMMA = {"local_base": "rope.freq_base_swa"}
GEMMA |= {"window": "attention.sliding_window", "period": "attention.sliding_window_pattern"}
OTHER = {"vocab_size", "tensor_data_layout", "attention.value_length", "rope.dimension_count", "rope.scaling.type"}
OTHER |= {"rope.scaling.original_context_length", "rope.scaling.finetuned"}
MODULES = {  # ours, by the file's name
    "token_embd": "embedding", "output_norm": "norm", "output": "output_layer", "attn_norm": "norm_1",
    "ffn_norm": "norm_2", "attn_q": "attention.W_query", "attn_k": "attention.W_key", "attn_v": "attention.W_value",
    "attn_output": "attention.out_proj", "ffn_gate": "W_gate", "ffn_up": "W_up", "ffn_down": "W_down",
    "attn_q_norm": "attention.query_norm", "attn_k_norm": "attention.key_norm",
    "post_attention_norm": "after_attention", "post_ffw_norm": "after_mlp",
}  # fmt: skip
GEMMA_27B = 62  # layers; only the largest of its family scales scores by another width, and no key says so


class ModelConfig(NamedTuple):
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
    beginning: int | None = None  # the id of the token put before each text
    family: str = "llama"
    tied: bool = True  # whether the embedding doubles as the output layer
    factor: float = 1.0  # divides all frequencies (linear scaling)
    divisors: list | None = None  # divide each pair's frequency (Llama 3's scaling)
    window: int | None = None  # how many keys a query sees in a local layer
    local_base: float = 10_000.0  # of the rotary positions in local layers
    period: int = 6  # of so many layers, the last isn't local

    def is_local(self, layer):
        return self.window is not None and (layer + 1) % self.period != 0

    @property
    def scale(self):
        """What the scores are multiplied by."""
        by_width = self.family == "gemma3" and self.num_layers == GEMMA_27B
        return (self.d_model / self.num_heads if by_width else self.head_dim) ** -0.5


def read_config(fields):
    """The ModelConfig of a GGUF file's fields, values by key. ValueError or KeyError if we can't follow them."""
    family = fields.get("general.architecture")
    if family not in FAMILIES:
        raise ValueError(f"its general.architecture must be one of {', '.join(FAMILIES)}, got {family!r}")
    sizes = {name.removeprefix(f"{family}."): value for name, value in fields.items() if name.startswith(f"{family}.")}
    optional = OPTIONAL | (GEMMA if FAMILIES[family].gemma else {})
    if unknown := sizes.keys() - {*NEEDED.values(), *optional.values()} - OTHER:
        raise ValueError(f"it has the key {family}.{min(unknown)}, which we don't know how to follow")
    found = {name: sizes[key] for name, key in NEEDED.items()}
    defaults = {"num_kv_heads": found["num_heads"], "head_dim": found["d_model"] // found["num_heads"]}
    if family == "llama":
        defaults["base"] = 10_000.0
    found |= defaults | {name: sizes[key] for name, key in optional.items() if key in sizes}
    scaling = sizes.get("rope.scaling.type", "linear")
    if scaling not in ("none", "linear"):
        raise ValueError(f"{family}.rope.scaling.type must be 'none' or 'linear', got {scaling!r}")
    if scaling == "none":
        found["factor"] = 1.0
    for key in ("attention.value_length", "rope.dimension_count"):
        if sizes.get(key, found["head_dim"]) != found["head_dim"]:
            raise ValueError(f"{family}.{key} must be {found['head_dim']}, a head's width, got {sizes[key]}")
    usual = fields.get("tokenizer.ggml.model") == "llama" or fields.get("tokenizer.ggml.pre") in LLAMA3
    if fields.get("tokenizer.ggml.add_bos_token", usual):  # files that don't say so leave it to the tokenizer
        found["beginning"] = fields.get("tokenizer.ggml.bos_token_id")
    return ModelConfig(vocab_size=len(fields["tokenizer.ggml.tokens"]), family=family, **found)


def our_name(theirs):
    """A tensor's name in our model, by its name in the file."""
    *block, module, end = theirs.split(".")
    if module not in MODULES:
        raise ValueError(f"it holds {theirs}, which our layers don't know")
    return ".".join([*(["blocks", block[1]] if block else []), MODULES[module], end])


def interleave_halves(name, rows, config):
    """A tensor's rows: most files have a head's as two halves, we have entries that rotate together as neighbours."""
    if not FAMILIES[config.family].halves or name.split(".")[-2] not in ("W_query", "W_key", "query_norm", "key_norm"):
        return rows
    halves = rows.reshape(-1, 2, config.head_dim // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)
