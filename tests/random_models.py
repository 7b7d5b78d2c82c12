"""Random language models of each family, in GGUF files like those of published models, always the same."""

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from tokenizers import pre_tokenizers

from attention_course.explorers.rope_scaling import llama3_frequencies
from attention_helpers.language_model.families import MODULES, ModelConfig, our_name
from attention_helpers.language_model.model import LanguageModel
from attention_helpers.modern.positions import rope_frequencies

CONTROL = ["<|end|>", "<|start|>"]
MERGES = ["t h", "th e", "Ġ the", "Ã ¼", "1 9"]  # in bytes, so ü is two; digits are split off before they could merge
COMMON = {"num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "base": 1e4, "eps": 1e-6, "context_length": 64}
WIDE = {"d_model": 256, "d_inner": 256, "head_dim": 64}  # rows of 256 or 512, the size of a K-quant's block
GEMMA = {"num_layers": 6, "head_dim": 128, "num_kv_heads": 1, "window": 6, "factor": 8.0, "base": 1e6}
FAMILIES = {
    "llama": WIDE,
    "llama3": WIDE | {"divisors": True},
    "qwen2": WIDE | {"family": "qwen2", "tied": False, "base": 1e6},
    "qwen3": WIDE | {"family": "qwen3", "num_heads": 8, "base": 1e6},
    "gemma3": WIDE | {"family": "gemma3"} | GEMMA,
}
TINY = {"d_model": 32, "d_inner": 64, "head_dim": 8, "base": 500.0, "eps": 1e-5, "context_length": 40}
SCALING = {"factor": 8.0, "original": 24, "low": 1.0, "high": 4.0}  # Llama 3's
PIECES = [
    "the", "The", "lighthouse", "don't", "WE'LL", "I'm", "naïve", "nai\u0308ve", "Größe", "e\u0301te\u0301", "café's",
    "東京", "は", "한국어", "мир", "🎉", "👩‍🚀", "🇧🇷", "\n", "\n\n", "\r\n", "\t", " ", "  ", "     ", "\u00a0",
    "7", "42", "1984", "3.14159", "10,000", "²", "¾", "٣", "ﬁ", "def add(a, b):", "return a+b", "x_1", "!=",
    "\u200b", "#!/bin/sh", "...", "—", "“", "”", "(", ")", "{}", "[0]",
]  # fmt: skip


def vocabulary():
    return CONTROL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]


def config_of(name):
    """A small model's ModelConfig; name: one of FAMILIES, or "tiny"."""
    config = ModelConfig(len(vocabulary()), **COMMON | FAMILIES.get(name, TINY))
    plain = rope_frequencies(config.head_dim, config.base)
    scaled = config.divisors and (plain / llama3_frequencies(plain, **SCALING)).float().tolist()
    return config._replace(divisors=scaled)


def fields_of(config):
    """What a file's header says of such a model."""
    sizes = {
        "block_count": config.num_layers, "context_length": config.context_length, "embedding_length": config.d_model,
        "feed_forward_length": config.d_inner, "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads, "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.eps, "rope.freq_base": config.base, "vocab_size": config.vocab_size,
        "attention.sliding_window": config.window, "rope.scaling.factor": config.factor if config.window else None,
    }  # fmt: skip
    types = [3, 4] + [1] * (config.vocab_size - 2)  # control, a user's own, ordinary
    words = {"model": "gpt2", "pre": "smollm", "merges": MERGES, "tokens": vocabulary(), "token_type": types}
    fields = {f"{config.family}.{key}": value for key, value in sizes.items()}
    return fields | {"general.name": "random"} | {f"tokenizer.ggml.{key}": value for key, value in words.items()}


def layout(config):
    """The shape of every tensor, by its name in a file, in the order in which we draw them."""
    with torch.device("meta"):
        shapes = {name: tuple(part.shape) for name, part in LanguageModel(config).state_dict().items()}
    whole, parts = [*MODULES][:3], [*MODULES][3:]
    names = [*whole, *(f"blk.{layer}.{part}" for layer in range(config.num_layers) for part in parts)]
    names = [f"{name}.{end}" for name in names for end in ("weight", "bias")]
    skipped = {"output.weight"} if config.tied else set()
    return {name: shapes[our_name(name)] for name in names if our_name(name) in shapes and name not in skipped}


def drawn_tensors(config, kind="F32", seed=0):
    """Each tensor as an array and its kind, by its name: norms near 1, matrices compressed as `kind` says."""
    chance, tensors = np.random.default_rng(seed), {}
    for name, shape in layout(config).items():
        code = GGMLQuantizationType["F32" if len(shape) == 1 else kind]
        width = shape[-1] ** -0.5 if len(shape) == 2 else 0.125
        array = (width * chance.standard_normal(shape) + ("norm" in name)).astype(np.float32)
        tensors[name] = quantize(array, code), code
    if config.divisors:
        tensors["rope_freqs.weight"] = np.array(config.divisors, np.float32), GGMLQuantizationType.F32
    return tensors


def write_gguf(path, config, tensors, fields=None, family=None):
    """Write a GGUF file; returns its path. fields: replace the model's, or leave one out, if None."""
    writer = GGUFWriter(path, family or config.family)
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, value in (fields_of(config) | (fields or {})).items():
        if value is not None:
            kinds.get(type(value), writer.add_array)(name, value)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_family(path, name, kind="F32", seed=0):
    """Write a small random model, always the same. name: as in config_of."""
    config = config_of(name)
    return write_gguf(path, config, drawn_tensors(config, kind, seed))


def drawn_texts():
    """Ten texts of 4 to 40 random tokens, longer than Gemma's window and Llama's first context length."""
    chance, size = np.random.default_rng(1), len(vocabulary())
    return [chance.integers(2, size, 4 * (n + 1)).tolist() for n in range(10)]


def drawn_strings():
    """200 strings: words, spaces, digits, accents of both kinds, emoji and code, with and without spaces in between."""
    chance = np.random.default_rng(2)
    return [str(chance.choice(["", " ", "  "])).join(chance.choice(PIECES, 1 + n % 12)) for n in range(200)]
