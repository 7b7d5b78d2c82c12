"""What a GGUF file of the llama family holds, decoded: sizes, weights by our names, the tokenizer; or what it lacks."""

from typing import NamedTuple

import torch

from .tokenizer import tokenizer_json

ARCHITECTURE = "llama"


class Sizes(NamedTuple):
    """What a model of the llama family is made of."""

    num_symbols: int  # in the vocabulary
    d_model: int  # the width of a token between the layers
    d_inner: int  # the width between the two halves of a feed-forward part
    num_layers: int
    num_heads: int  # of queries, in each layer
    num_key_heads: int
    base: float  # of the rotary positions
    eps: float  # what RMSNorm adds to the mean square that it divides by
    context_length: int  # the longest text that the model was trained on, in tokens
    end: int | None  # the code of the token that ends a text


class ModelFile(NamedTuple):
    """All that a model's file says: weights in float32, named as LanguageModel's parameters; the tokenizer as JSON."""

    sizes: Sizes
    weights: dict
    tokenizer: str


def decoded(path):
    """A ModelFile from a GGUF file of the llama family, its numbers as they were before they were compressed, nearly.

    The file's rows of W_query and W_key stand in an order in which rotary positions turn neighbours,
    as `variants.rotate` does.
    Errors: OSError for a file that is not there; ValueError for one that is damaged, cut or of
    another kind, naming what cannot be read.
    Source: the GGUF format, github.com/ggml-org/ggml, docs/gguf.md.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except OSError:
        raise
    except Exception as error:  # whatever a reader runs into where the bytes are not what it takes them for
        raise ValueError(f"{path} is no whole GGUF file, but damaged, cut or of another kind ({error})") from error
    try:
        sizes = sizes_in(fields)
        if sizes.num_layers > len(reader.tensors):
            raise ValueError(f"its block_count is {sizes.num_layers}, but it holds only {len(reader.tensors)} tensors")
        weights = weights_in(reader.tensors, layout(sizes))
        return ModelFile(sizes, weights, tokenizer_json(fields))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def sizes_in(fields):
    """The Sizes that a file names; ValueError for another family than llama, or what our layers do not know."""
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
            raise ValueError(f"its {name} must be a whole number from 1 on, got {count}")
    *counts, context_length = counts.values()
    check_rotary(own, counts[0] // num_heads)
    base, eps = own.get("rope.freq_base", 10_000.0), own.get("attention.layer_norm_rms_epsilon", 1e-5)
    symbols, end = len(fields.get("tokenizer.ggml.tokens", ())), fields.get("tokenizer.ggml.eos_token_id")
    return Sizes(symbols, *counts, base, eps, context_length, end)


def check_rotary(own, head_dim):
    """ValueError unless all entries of a head turn, at speeds that nothing scales, and no window hides the past."""
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        if own.get(name, head_dim) != head_dim:
            raise ValueError(f"its {name} must be embedding_length / head_count = {head_dim}, got {own[name]}")
    plain = {"rope.scaling.type": ("none",), "rope.scaling.factor": (0, 1), "attention.sliding_window": (0,)}
    for name, values in plain.items():
        if own.get(name, values[0]) not in values:
            raise ValueError(f"its {name} is {own[name]}, which our layers do not do")


def layout(sizes):
    """Our name and the shape of every tensor, by the name that a file gives it."""
    d, inner = sizes.d_model, sizes.d_inner
    keys = sizes.num_key_heads * (d // sizes.num_heads)
    names = {"token_embd": ("embedding", (sizes.num_symbols, d)), "output_norm": ("norm", (d,))}
    for layer in range(sizes.num_layers):
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
    """The weights by our names, float32; ValueError for a tensor too few or too many, misshapen, or not decodable.

    Where there is no read_out, the embedding serves as it.
    """
    there = {tensor.name: tensor for tensor in tensors}
    names = {"output.weight": ("read_out.weight", names["token_embd.weight"][1])} | names
    wrong = [f"lacks {name}" for name in names.keys() - there.keys() - {"output.weight"}]
    wrong += [f"holds {name}, which our layers do not know" for name in there.keys() - names.keys()]
    if wrong:
        raise ValueError(f"it {min(wrong)}")
    weights = {names[name][0]: decode(tensor, names[name][1]) for name, tensor in there.items()}
    return {"read_out.weight": weights["embedding.weight"]} | weights


def decode(tensor, shape):
    """One tensor, float32, in memory of its own: what the file hands out cannot be written to."""
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
