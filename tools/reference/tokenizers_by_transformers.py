"""How transformers' tokenizers cut 200 strings, each with a small vocabulary trained on these strings."""

import json
import zlib
from functools import partial

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Tokenizer, Qwen2Tokenizer
from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

from .random_models import drawn_strings

MERGES = 120
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def smollm(vocab, merges):
    """SmolLM has no class in transformers; its published file lists these parts."""
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return tokenizer


def from_gguf(family, kind, split, vocab, merges):
    """As transformers makes it from a GGUF file's fields."""
    fields = {"tokenizer_type": kind, "tokens": [*vocab], "scores": [-float(n) for n in range(len(vocab))]}
    fields |= {"merges": list(map(" ".join, merges)), "pre_tokenizer_type": split} if split else {}
    return convert_gguf_tokenizer(family, fields)[0]


def backend(cls, vocab, merges):
    return cls(vocab=vocab, merges=merges).backend_tokenizer


OVER_BYTES = {
    "gpt-2": partial(backend, GPT2Tokenizer),
    "smollm": smollm,
    "qwen2": partial(backend, Qwen2Tokenizer),
    "llama-bpe": partial(from_gguf, "llama", "gpt2", "llama-bpe"),
}
OVER_CHARACTERS = {name: partial(from_gguf, name, "llama", None) for name in ("llama", "gemma3")}


def case(name, make, over_bytes):
    """The vocabulary and merges of a small tokenizer, and a checksum of the token ids of each string."""
    first = sorted(pre_tokenizers.ByteLevel.alphabet()) if over_bytes else ["<unk>", "<s>", "</s>", *BYTES, "▁"]
    learner = make({token: n for n, token in enumerate(first)}, [])
    learner.model = models.BPE()
    characters = 0 if over_bytes else 60  # the rest become bytes
    how = {"special_tokens": first, "show_progress": False} | ({} if over_bytes else {"limit_alphabet": characters})
    trainer = trainers.BpeTrainer(vocab_size=len(first) + MERGES + characters, **how)
    learner.train_from_iterator(drawn_strings(), trainer)
    model = json.loads(learner.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    if name == "gemma3":  # whose files spell spaces in a row as such
        tokens = [" " * len(token) if len(token) > 1 and set(token) == {"▁"} else token for token in tokens]
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = make({token: n for n, token in enumerate(tokens)}, merges)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in drawn_strings()]
    made = {"name": name, "tokens": tokens, "merges": list(map(" ".join, merges)) if over_bytes else []}
    return made | {"ids": [zlib.crc32(json.dumps(found).encode()) for found in ids]}


def cases():
    kinds = ((OVER_BYTES, True), (OVER_CHARACTERS, False))
    return [case(name, make, over_bytes) for group, over_bytes in kinds for name, make in group.items()]
