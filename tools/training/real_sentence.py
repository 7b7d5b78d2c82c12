"""What data/real_sentence.json holds: which noun each head of notebook 13's model links a pronoun or a verb to."""

import json
import re

import torch
from torch.nn import functional as F

from attention_helpers.language_model.model import load_model

NUMBERS = re.compile(r"\[\s+([\d.,\s]+?)\s+\]")


def places(words, word):
    """The places of the tokens (a list of str) that hold a word of their text, which comes only once there."""
    [found] = re.finditer(rf"\b{word}\b", "".join(words))
    lengths = torch.tensor([len(token) for token in words])
    ends = lengths.cumsum(dim=0)
    return ((ends - lengths < found.end()) & (ends > found.start())).nonzero().flatten()


def measure_sentence(model, sentence):
    """The text's tokens, and what each head reads most at the asking word, the first token left aside.

    Returns the tokens, and the place that's read and its weight, (layers, heads) each.
    """
    token_ids = model.encode(sentence["text"])
    words = model.words(token_ids[0])
    row = places(words, sentence["asks"])[0]
    weights, read = model.look(token_ids).maps[0, :, :, row, 1 : row + 1].max(dim=-1)
    return words, read + 1, weights


def loss_after(model, sentence, ablate=()):
    """The mean loss of what comes after the asking word."""
    token_ids = model.encode(sentence["text"])
    row = places(model.words(token_ids[0]), sentence["asks"])[0]
    logits = model(token_ids, ablate)[0, row:-1]
    return F.cross_entropy(logits, token_ids[0, row + 1 :])


def measure_losses(model, sentences, layer, head):
    """Means over the sentences: with all heads, and without each head of a layer; in how many one head is missed."""

    def losses(ablate=()):
        return torch.stack([loss_after(model, sentence, ablate) for sentence in sentences])

    intact = losses()
    without = torch.stack([losses([(layer, each)]) for each in range(model.config.num_heads)])
    means = [round(mean, 3) for mean in without.mean(dim=1).tolist()]
    worse = (without[head] > intact).sum().item()
    return {"all_heads": round(intact.mean().item(), 3), "without_each": means, "worse_without": worse}


@torch.no_grad()
def measure(stored):
    """All that the model says of what's stored, measured again in place."""
    model = load_model()
    layer, head = stored["layer"], stored["head"]
    right = 0
    for sentence in stored["sentences"]:
        words, read, weights = measure_sentence(model, sentence)
        right += torch.isin(read, places(words, sentence["noun"])).int()
        sentence["looks_at"] = words[read[layer, head]].strip()
        sentence["weight"] = round(weights[layer, head].item(), 2)
    stored["right"] = right.tolist()
    stored["losses_after"] = measure_losses(model, stored["sentences"], layer, head)
    for shown in stored["maps"]:
        token_ids = model.encode(shown["text"])
        shown["tokens"] = model.words(token_ids[0])
        weights = model.look(token_ids).maps[0, layer, head].double()
        shown["weights"] = [[round(weight, 4) for weight in row] for row in weights.tolist()]


def write(path, stored):
    """As JSON, with a line for each row of numbers."""
    text = json.dumps(stored, indent=1)
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n", encoding="utf-8")
