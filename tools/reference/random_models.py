"""Random language models of each family, in GGUF files like those of published models: for tests, and their figures."""

import numpy as np

from attention_helpers.language_model.families import ModelConfig, layout
from attention_helpers.modern.positions import llama3_frequencies, rope_frequencies

CONTROL = ["<|end|>", "<|start|>"]
MERGES = ["t h", "th e", "Ġ the", "Ã ¼", "1 9"]  # in bytes, so ü is two; digits are split off before they could merge
# Small models of each family: rows of 256 or 512, the size of a K-quant's block.
COMMON = {"d_model": 256, "d_inner": 256, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "head_dim": 64}
FAMILIES = {
    "llama": {},
    "llama3": {"divisors": True},
    "qwen2": {"family": "qwen2", "tied": False, "base": 1e6},
    "qwen3": {"family": "qwen3", "num_heads": 8, "base": 1e6},
    "gemma3": {
        "family": "gemma3",
        "num_layers": 6,
        "head_dim": 128,
        "num_kv_heads": 1,
        "window": 6,
        "factor": 8.0,
        "base": 1e6,
    },
}
SCALING = {"factor": 8.0, "original": 24, "low": 1.0, "high": 4.0}  # Llama 3's
KINDS = ("F32", "Q8_0", "Q4_0", "K")
# A K-quant's blocks: where its scales are, as half floats, and values with which weights are about 0.06 wide.
SCALES = {"Q2_K": {80: 6e-3, 82: 9e-3}, "Q3_K": {108: 1.5e-3}, "Q4_K": {0: 3e-4, 2: 2e-3}, "Q5_K": {0: 1.5e-4, 2: 2e-3},
          "Q6_K": {208: 5e-5}}  # fmt: skip


def vocabulary():
    from tokenizers import pre_tokenizers

    return CONTROL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]


def tokenizer_fields():
    words = vocabulary()
    types = [{CONTROL[0]: 3, CONTROL[1]: 4}.get(word, 1) for word in words]  # 4: a user's own
    made = {"model": "gpt2", "pre": "smollm", "merges": MERGES, "tokens": words, "token_type": types, "eos_token_id": 0}
    return {f"tokenizer.ggml.{name}": value for name, value in made.items()}


def random_tensor(name, shape, kind, chance, number):
    """An array and its kind: norms near 1, and matrices compressed in this kind, or in K-quants by turns."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quantize

    if len(shape) == 1:
        return (chance.standard_normal(shape) / 8 + ("norm" in name)).astype(np.float32), None
    if kind != "K":
        array = (chance.standard_normal(shape) / 16).astype(np.float32)
        kind = GGMLQuantizationType[kind]
        return (array, None) if kind.name == "F32" else (quantize(array, kind), kind)
    k = list(SCALES)[number % len(SCALES)]
    _, length = GGML_QUANT_SIZES[GGMLQuantizationType[k]]
    blocks = chance.integers(0, 256, (shape[0] * shape[1] // 256, length), dtype=np.uint8)
    for at, scale in SCALES[k].items():
        blocks[:, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    return blocks.reshape(shape[0], -1), GGMLQuantizationType[k]


def tiny_config(name):
    made = {"vocab_size": len(vocabulary()), "base": 10_000.0, "eps": 1e-6, "context_length": 64, "end": 0}
    config = ModelConfig(**made | COMMON | FAMILIES[name])
    if not config.divisors:
        return config
    plain = rope_frequencies(config.head_dim, config.base)
    return config._replace(divisors=(plain / llama3_frequencies(plain, **SCALING)).float().tolist())


def write_family(path, name, kind):
    """Write a random model, always the same. name: one of FAMILIES; kind: one of KINDS."""
    config, chance = tiny_config(name), np.random.default_rng(0)
    family = config.family
    keys = {
        "block_count": config.num_layers, "context_length": config.context_length, "embedding_length": config.d_model,
        "feed_forward_length": config.d_inner, "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads, "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim, "attention.layer_norm_rms_epsilon": config.eps,
        "rope.freq_base": config.base, "vocab_size": config.vocab_size,
    }  # fmt: skip
    if config.window:
        keys |= {"attention.sliding_window": config.window, "rope.scaling.type": "linear"}
        keys |= {"rope.scaling.factor": config.factor}
    fields = {"general.name": name} | {f"{family}.{key}": value for key, value in keys.items()}
    fields |= tokenizer_fields()
    shapes = {name: shape for name, (_, shape) in layout(config).items()}
    tensors = {name: random_tensor(name, shape, kind, chance, n) for n, (name, shape) in enumerate(shapes.items())}
    if config.divisors:
        tensors["rope_freqs.weight"] = np.array(config.divisors, np.float32), None
    return write(path, family, fields, tensors)


def write(path, family, fields, tensors):
    """Write a GGUF file. fields: by key, in which None leaves one out; tensors: pairs of an array and its kind."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, family)
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, value in fields.items():
        if value is not None:
            kinds.get(type(value), writer.add_array)(name, value)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def drawn_texts(name):
    """Ten texts for a model, of 4 to 40 random tokens, longer than Gemma's window and Llama's first context length."""
    chance, size = np.random.default_rng(1), tiny_config(name).vocab_size
    return [chance.integers(2, size, 4 * (n + 1)).tolist() for n in range(10)]


PIECES = [
    "the", "The", "lighthouse", "don't", "WE'LL", "I'm", "naïve", "nai\u0308ve", "Größe", "e\u0301te\u0301", "café's",
    "東京", "は", "한국어", "мир", "🎉", "👩‍🚀", "🇧🇷", "\n", "\n\n", "\r\n", "\t", " ", "  ", "     ", "\u00a0",
    "7", "42", "1984", "3.14159", "10,000", "²", "¾", "٣", "ﬁ", "def add(a, b):", "return a+b", "x_1", "!=",
    "\u200b", "#!/bin/sh", "...", "—", "“", "”", "(", ")", "{}", "[0]",
]  # fmt: skip


def drawn_strings():
    """200 strings: words, spaces, digits, accents of both kinds, emoji and code, with and without spaces in between."""
    chance = np.random.default_rng(2)
    return [str(chance.choice(["", " ", "  "])).join(chance.choice(PIECES, 1 + n % 12)) for n in range(200)]
