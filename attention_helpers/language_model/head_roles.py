"""Find out what a language model's heads do: repeated texts, scores for each role, and the loss after ablation."""

import torch
from torch.nn import functional as F

from ..checks import check_size, check_tensor

ORDINARY = 256  # token ids below this are bytes and control tokens, rare in texts


def repeated_tokens(model, num_tokens=32, seed=0, texts=1):
    """Random tokens, then the same ones again: token ids (texts, 2 * num_tokens). Only the repeat is predictable.

    Errors: TypeError or ValueError if a size isn't a whole number of at least 1.
    Source: Olsson et al. 2022, "In-context Learning and Induction Heads" (arXiv 2209.11895).
    """
    shape, most = (check_size("texts", texts), check_size("num_tokens", num_tokens)), model.config.vocab_size
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(min(ORDINARY, most // 2), most, shape, generator=generator).repeat(1, 2)


def weight_at(maps, distance, start=0):
    """Each head's mean weight, over the tokens from `start` on, on the token `distance` before.

    maps: (..., num_tokens, num_tokens). Returns (...,). Errors: TypeError if maps isn't a floating-point
    tensor or a number isn't whole; ValueError if no token has a token that far before it.
    """
    check_tensor("maps", maps, layout="(..., num_tokens, num_tokens)")
    first = max(check_size("start", start, minimum=0), check_size("distance", distance, minimum=0))
    if first >= maps.shape[-1]:
        raise ValueError(f"start and distance must be below {maps.shape[-1]}, got {start} and {distance}")
    given = maps.diagonal(-distance, dim1=-2, dim2=-1)  # (..., num_tokens - distance), of tokens from `distance` on
    return given[..., first - distance :].mean(dim=-1)


def best_heads(scores, count=5):
    """The `count` heads with the largest scores (num_layers, num_heads), best first, as pairs (layer, head)."""
    check_tensor("scores", scores, (2,), "(num_layers, num_heads)")
    order = scores.flatten().argsort(descending=True, stable=True)[: check_size("count", count)]
    return [divmod(place, scores.shape[1]) for place in order.tolist()]


def loss(model, token_ids, start=1, ablate=()):
    """The model's cross-entropy on a text: the mean of -log(probability) over its tokens from `start` on, in nats.

    token_ids: (b, num_tokens). Errors: as in the model; ValueError unless start is between 1 and the last token.
    """
    if not 1 <= check_size("start", start) < token_ids.shape[1]:
        raise ValueError(f"start must be from 1 to {token_ids.shape[1] - 1}, got {start}")
    logits = model(token_ids, ablate)[:, start - 1 : -1]  # each token is predicted from those before it
    return F.cross_entropy(logits.flatten(0, 1), token_ids[:, start:].flatten()).item()
