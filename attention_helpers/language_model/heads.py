"""Find out what a language model's heads do: repeated texts, and the best heads by a score."""

import torch

ORDINARY = 256  # token ids below this are bytes and control tokens, rare in texts


def repeated_tokens(model, num_tokens=32, seed=0, texts=1):
    """Random tokens, then the same ones again: token ids (texts, 2 * num_tokens). Only the repeat is predictable.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads" (arXiv 2209.11895).
    """
    most, generator = model.config.vocab_size, torch.Generator().manual_seed(seed)
    return torch.randint(min(ORDINARY, most // 2), most, (texts, num_tokens), generator=generator).repeat(1, 2)


def best_heads(scores, count=5):
    """The `count` heads with the largest scores (num_layers, num_heads), best first, as pairs (layer, head)."""
    order = scores.flatten().argsort(descending=True, stable=True)[:count]
    return [divmod(place, scores.shape[1]) for place in order.tolist()]
