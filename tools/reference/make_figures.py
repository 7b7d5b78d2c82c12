"""Have transformers compute figures of the language model and of today's layers, with which tests compare ours.

make figures     (installs transformers into build/reference, and writes four files in tests)
"""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attention_helpers.language_model.model_file import model_file

from . import families_by_transformers, layers_by_transformers, tokenizers_by_transformers

TESTS = Path(__file__).resolve().parents[2] / "tests"
HEADS = (0, 0), (2, 1), (14, 3), (18, 6), (29, 8)  # (layer, head), both from 0: their maps' last rows are stored
MOST = 8  # logits of the last token that are stored, the largest
TEXTS = [
    "Your journey starts with one",
    "The cat sat on the mat, and the cat sat on the",
    "In 1984 there were 365 days; 3.14159 is not 22/7.",
    "Le garçon n'a pas mangé, où était-il allé ?",
    "def add(a, b):\n    return a + b\n\n\nprint(add(2,",
    "東京は日本の首都です。",
    "See you at 5pm! 🎉🙂 Bring cake",
    "  two spaces,\ttabs\n\nand   empty lines",
    "When Mary and John went to the store, John gave a drink to",
    "<|im_start|>user\nWhat is attention?<|im_end|>\n",
]


@torch.no_grad()
def figures(model, tokenizer, text):
    """What is stored of one text."""
    token_ids = tokenizer(text, return_tensors="pt").input_ids
    output = model(token_ids, output_attentions=True)
    best = output.logits[0, -1].topk(MOST)
    rows = {f"{layer} {head}": output.attentions[layer][0, head, -1].tolist() for layer, head in HEADS}
    return {
        "text": text,
        "token_ids": token_ids[0].tolist(),
        "next": best.indices.tolist(),
        "logits": [round(value, 5) for value in best.values.tolist()],
        "rows": {name: [round(value, 7) for value in row] for name, row in rows.items()},
    }


def store(name, entries):
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    (TESTS / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    file = {"pretrained_model_name_or_path": model_file().parent, "gguf_file": model_file().name}
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    model, tokenizer = AutoModelForCausalLM.from_pretrained(**file, **how).eval(), AutoTokenizer.from_pretrained(**file)
    store("language_model.json", [figures(model, tokenizer, text) for text in TEXTS])
    store("modern_layers.json", layers_by_transformers.cases())
    store("language_model_families.json", families_by_transformers.cases())
    store("language_model_tokenizers.json", tokenizers_by_transformers.cases())
