"""Decode a GGUF file of the llama family: config, weights under our names, tokenizer; or say what is wrong with it."""

from typing import NamedTuple

import torch

from .tokenizer import tokenizer_json

ARCHITECTURE = "llama"


class ModelConfig(NamedTuple):
    """The sizes and constants of a model of the llama family."""

    vocab_size: int  # tokens in the vocabulary
    d_model: int  # the width of the residual stream
    d_inner: int  # the hidden width of an MLP
    num_layers: int
    num_heads: int  # query heads per layer
    num_kv_heads: int
    base: float  # of the rotary positions
    eps: float  # added to the mean square in RMSNorm
    context_length: int  # the longest text the model was trained on, in tokens
    end: int | None  # the id of the token that ends a text


class ModelFile(NamedTuple):
    """A model file's contents: weights in float32, named like LanguageModel's parameters; the tokenizer as JSON."""

    config: ModelConfig
    weights: dict
    tokenizer: str


def decoded(path):
    """A ModelFile from a GGUF file of the llama family, with its weights dequantized.

    The file orders the rows of W_query and W_key for interleaved rotary positions, the layout of
    `modern.parts.rotate`.
    Errors: OSError if there is no such file; ValueError if it's damaged, incomplete or of another
    kind, naming what can't be read.
    Source: the GGUF format, github.com/ggml-org/ggml, docs/gguf.md.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except OSError:
        raise
    except Exception as error:  # the reader can raise anything if the bytes aren't what it expects
        raise ValueError(
            f"{path} isn't a complete GGUF file; it's damaged, cut or of another kind ({error})"
        ) from error
    try:
        config = config_in(fields)
        if config.num_layers > len(reader.tensors):
            raise ValueError(f"its block_count is {config.num_layers}, but it holds only {len(reader.tensors)} tensors")
        weights = weights_in(reader.tensors, layout(config))
        return ModelFile(config, weights, tokenizer_json(fields))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def config_in(fields):
    """The ModelConfig in a file; ValueError for a family other than llama, or for features that our layers lack."""
    family = fields.get("general.architecture")
    if family != ARCHITECTURE:
        raise ValueError(f"its general.architecture must be {ARCHITECTURE!r}, got {family!r}")
    own = {name.partition(".")[2]: value for name, value in fields.items() if name.startswith(f"{ARCHITECTURE}.")}
    num_heads = own.get("attention.head_count")
    counts = {
        "embedding_length": own.get("embedding_length"),
        "feed_forward_length": own.get("feed_forward_length"),
        "block_count": own.get("block_count"),
        "attention.head_count": num_heads,
        "attention.head_count_kv": own.get("attention.head_count_kv", num_heads),
        "context_length": own.get("context_length"),
    }
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"its {name} must be a whole number of at least 1, got {count}")
    *counts, context_length = counts.values()
    check_rotary(own, counts[0] // num_heads)
    base, eps = own.get("rope.freq_base", 10_000.0), own.get("attention.layer_norm_rms_epsilon", 1e-5)
    symbols, end = len(fields.get("tokenizer.ggml.tokens", ())), fields.get("tokenizer.ggml.eos_token_id")
    return ModelConfig(symbols, *counts, base, eps, context_length, end)


def check_rotary(own, head_dim):
    """ValueError unless all entries of a head rotate, with unscaled frequencies, and no window hides the past."""
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        if own.get(name, head_dim) != head_dim:
            raise ValueError(f"its {name} must be embedding_length / head_count = {head_dim}, got {own[name]}")
    plain = {"rope.scaling.type": ("none",), "rope.scaling.factor": (0, 1), "attention.sliding_window": (0,)}
    for name, values in plain.items():
        if own.get(name, values[0]) not in values:
            raise ValueError(f"its {name} is {own[name]}, which our layers do not do")


def layout(config):
    """Our name and the shape of every tensor, by its name in the file."""
    d, inner = config.d_model, config.d_inner
    keys = config.num_kv_heads * (d // config.num_heads)
    names = {"token_embd": ("embedding", (config.vocab_size, d)), "output_norm": ("norm", (d,))}
    for layer in range(config.num_layers):
        theirs, ours = f"blk.{layer}.", f"blocks.{layer}."
        names |= {
            theirs + "attn_norm": (ours + "norm_1", (d,)),
            theirs + "attn_q": (ours + "attention.W_query", (d, d)),
            theirs + "attn_k": (ours + "attention.W_key", (keys, d)),
            theirs + "attn_v": (ours + "attention.W_value", (keys, d)),
            theirs + "attn_output": (ours + "attention.out_proj", (d, d)),
            theirs + "ffn_norm": (ours + "norm_2", (d,)),
            theirs + "ffn_gate": (ours + "W_gate", (inner, d)),
            theirs + "ffn_up": (ours + "W_up", (inner, d)),
            theirs + "ffn_down": (ours + "W_down", (d, inner)),
        }
    return {f"{theirs}.weight": (f"{ours}.weight", shape) for theirs, (ours, shape) in names.items()}


def weights_in(tensors, names):
    """The weights under our names, float32; ValueError if a tensor is missing, unknown, misshapen or not decodable.

    If there is no output layer, the embedding doubles as one.
    """
    there = {tensor.name: tensor for tensor in tensors}
    names = {"output.weight": ("output_layer.weight", names["token_embd.weight"][1])} | names
    wrong = [f"lacks {name}" for name in names.keys() - there.keys() - {"output.weight"}]
    wrong += [f"holds {name}, which our layers do not know" for name in there.keys() - names.keys()]
    if wrong:
        raise ValueError(f"it {min(wrong)}")
    weights = {names[name][0]: decode(tensor, names[name][1]) for name, tensor in there.items()}
    return {"output_layer.weight": weights["embedding.weight"]} | weights


def decode(tensor, shape):
    """One tensor as float32, copied because the file's own memory is read-only."""
    from gguf import dequantize

    try:
        decoded = torch.tensor(dequantize(tensor.data, tensor.tensor_type), dtype=torch.float32)
    except NotImplementedError:
        raise ValueError(
            f"{tensor.name} is compressed as {tensor.tensor_type.name}, for which gguf has no way back"
        ) from None
    if decoded.shape != shape:
        raise ValueError(f"{tensor.name} must have the shape {shape}, got {tuple(decoded.shape)}")
    if not decoded.isfinite().all():
        raise ValueError(f"{tensor.name} holds numbers that are not finite")
    return decoded
