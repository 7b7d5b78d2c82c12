"""A language model small enough for a test, in a GGUF file like those of published models."""

import numpy as np
import torch

LAYERS, D_MODEL, INNER, HEADS, KEY_HEADS, BASE, EPS = 2, 32, 64, 4, 2, 500.0, 1e-5
CONTROL = ["<|end|>", "<|start|>"]
MERGES = ["t h", "th e", "Ġ the", "Ã ¼", "1 9"]  # in bytes, so ü is two; digits are split off before they could merge


def vocabulary():
    from tokenizers import pre_tokenizers

    return CONTROL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]


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
}


def write_gguf(path, weights, fields=None, pre="smollm", family="llama", kinds=None):
    """Write such a file. fields: whole numbers that replace ours. kinds: how to compress a tensor."""
    from gguf import GGUFWriter, quantize

    writer = GGUFWriter(path, family)
    for name, value in (FIELDS | (fields or {})).items():
        writer.add_uint32(name, value)
    writer.add_float32("llama.rope.freq_base", BASE)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", EPS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary())
    writer.add_token_types([{CONTROL[0]: 3, CONTROL[1]: 4}.get(word, 1) for word in vocabulary()])  # 4: a user's own
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    for name, weight in weights.items():
        array, kind = np.ascontiguousarray(as_files_have_it(name, weight)), (kinds or {}).get(name)
        writer.add_tensor(f"{name}.weight", array if kind is None else quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
