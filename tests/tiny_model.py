"""A language model small enough for a test, in a GGUF file like those of published models."""

import numpy as np
import torch

from tools.reference.random_models import tokenizer_fields, vocabulary, write

LAYERS, D_MODEL, INNER, HEADS, KEY_HEADS, BASE, EPS = 2, 32, 64, 4, 2, 500.0, 1e-5


def drawn_weights(seed=0):
    """Weights as in training, under our names: rotary positions rotate entry i with entry i + head_dim / 2."""
    generator = torch.Generator().manual_seed(seed)
    keys, symbols = KEY_HEADS * D_MODEL // HEADS, len(vocabulary())
    shapes = {"token_embd": (symbols, D_MODEL), "output_norm": (D_MODEL,)}
    for layer in range(LAYERS):
        square, of_keys, inner = (D_MODEL, D_MODEL), (keys, D_MODEL), (INNER, D_MODEL)
        sizes = {"attn_norm": (D_MODEL,), "attn_q": square, "attn_k": of_keys, "attn_v": of_keys, "attn_output": square}
        sizes |= {"ffn_norm": (D_MODEL,), "ffn_gate": inner, "ffn_up": inner, "ffn_down": inner[::-1]}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in sizes.items()}
    return {name: 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def as_files_have_it(name, weight):
    """The rows of W_query and W_key in a file's order: entries that rotate together become neighbours."""
    if not name.endswith(("attn_q", "attn_k")):
        return weight
    head_dim = D_MODEL // HEADS
    halves = weight.view(-1, 2, head_dim // 2, D_MODEL)  # (heads, half, pair, d_model)
    return halves.transpose(1, 2).reshape(weight.shape)


FIELDS = {
    "llama.block_count": LAYERS,
    "llama.embedding_length": D_MODEL,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KEY_HEADS,
    "llama.context_length": 40,
    "llama.rope.freq_base": BASE,
    "llama.attention.layer_norm_rms_epsilon": EPS,
}


def write_gguf(path, weights, fields=None, family="llama", kinds=None):
    """Write such a file. fields: keys that replace ours. kinds: how to compress a tensor."""
    from gguf import quantize

    tensors = {}
    for name, weight in weights.items():
        array, kind = np.ascontiguousarray(as_files_have_it(name, weight)), (kinds or {}).get(name)
        full = name if name.endswith((".bias", ".weight")) else f"{name}.weight"
        tensors[full] = array if kind is None else quantize(array, kind), kind
    return write(path, family, FIELDS | tokenizer_fields() | (fields or {}), tensors)
