"""What transformers computes for the language model's file: run in an environment that has it, see make_figures.py.

    python by_transformers.py MODEL.gguf RESULT.pt

RESULT.pt holds, a text of TEXTS each: the text, its token_ids (num_tokens,), logits (num_tokens, vocab_size) and maps
(num_layers, num_heads, num_tokens, num_tokens).
"""

import sys
from pathlib import Path

import torch

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
def computed(path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **how).eval()
    for text in TEXTS:
        token_ids = tokenizer(text, return_tensors="pt").input_ids
        output = model(token_ids, output_attentions=True)
        maps = torch.stack([weights[0] for weights in output.attentions])
        yield {"text": text, "token_ids": token_ids[0], "logits": output.logits[0], "maps": maps}


if __name__ == "__main__":
    torch.save(list(computed(Path(sys.argv[1]))), sys.argv[2])
