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
        return ModelFile(config, weights_in(reader.tensors, layout(config)), tokenizer_json(fields))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def config_in(fields):
    """The ModelConfig in a file; ValueError for a family other than llama, or if a size is missing."""
    family = fields.get("general.architecture")
    if family != ARCHITECTURE:
        raise ValueError(f"its general.architecture must be {ARCHITECTURE!r}, got {family!r}")
    names = {
        "vocab_size": "tokenizer.ggml.tokens",
        "d_model": "llama.embedding_length",
        "d_inner": "llama.feed_forward_length",
        "num_layers": "llama.block_count",
        "num_heads": "llama.attention.head_count",
        "num_kv_heads": "llama.attention.head_count_kv",
        "base": "llama.rope.freq_base",
        "eps": "llama.attention.layer_norm_rms_epsilon",
        "context_length": "llama.context_length",
        "end": "tokenizer.ggml.eos_token_id",
    }
    for name in names.values():
        if name not in fields:
            raise ValueError(f"it lacks {name}")
    found = {ours: fields[theirs] for ours, theirs in names.items()}
    return ModelConfig(**found | {"vocab_size": len(found["vocab_size"])})


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
    """The weights under our names, float32; ValueError if a tensor is missing, unknown or misshapen.

    The embedding doubles as the output layer.
    """
    there = {tensor.name: tensor for tensor in tensors}
    wrong = [f"lacks {name}" for name in names.keys() - there.keys()]
    wrong += [f"holds {name}, which our layers do not know" for name in there.keys() - names.keys()]
    if wrong:
        raise ValueError(f"it {min(wrong)}")
    weights = {names[name][0]: decode(tensor, names[name][1]) for name, tensor in there.items()}
    return weights | {"output_layer.weight": weights["embedding.weight"]}


def decode(tensor, shape):
    """One tensor as float32, copied because the file's own memory is read-only."""
    from gguf import dequantize

    decoded = torch.tensor(dequantize(tensor.data, tensor.tensor_type), dtype=torch.float32)
    if decoded.shape != shape:
        raise ValueError(f"{tensor.name} must have the shape {shape}, got {tuple(decoded.shape)}")
    return decoded
