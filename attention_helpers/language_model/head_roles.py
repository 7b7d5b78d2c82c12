"""Find out what a language model's heads do: repeated texts, scores for each role, and mean contexts."""

from typing import NamedTuple

import torch

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


def after_opening(model, token_ids):
    """The same texts (b, num_tokens), after the token that the model expects at the beginning, if it has one."""
    return torch.cat((torch.tensor([model.opening], dtype=torch.long).expand(len(token_ids), -1), token_ids), dim=1)


class Role(NamedTuple):
    """A role, and how much weight each head gives to what the role reads, compared with a control."""

    name: str
    scores: torch.Tensor  # (num_layers, num_heads), mean weights
    control: str  # what the control reads
    controls: torch.Tensor  # (num_layers, num_heads), mean weights there

    def heads(self, least=0.3):
        """The heads, as pairs (layer, head), whose score is larger than its control by `least`; the best first."""
        above = self.scores - self.controls
        return [head for head in best_heads(above, above.numel()) if above[head] >= least]


def find_roles(model, num_tokens=32, texts=4, seed=0):
    """The Roles of a model's heads: induction heads, previous-token heads and those that rest on a sink.

    Measured on random tokens, whose repetition is all that's predictable. An induction head's control is the same
    distance in texts that repeat nothing; a previous-token head's, the token two before; a sink's, the second token.
    Errors: as in repeated_tokens and the model.
    Source: Olsson et al. 2022 (arXiv 2209.11895); sinks: Xiao et al. 2023 (arXiv 2309.17453).
    """
    twice = repeated_tokens(model, num_tokens, seed, texts)
    once = repeated_tokens(model, 2 * num_tokens, seed + 1, texts)[:, : 2 * num_tokens]
    start, back = num_tokens + len(model.opening), num_tokens - 1
    again, new = (model.look(after_opening(model, each)).maps.mean(dim=0) for each in (twice, once))
    return [
        Role("induction", weight_at(again, back, start), "the same in a new text", weight_at(new, back, start)),
        Role("previous token", weight_at(new, 1), "two before", weight_at(new, 2)),
        Role("sink", new[..., 2:, 0].mean(dim=-1), "the second token", new[..., 2:, 1].mean(dim=-1)),
    ]


def mean_contexts(model, token_ids):
    """Each head's context vector, averaged over texts (b, num_tokens) and positions: (num_layers, num_heads, head_dim).

    Replacing a head's context by this mean is called mean ablation. Errors: as in the model.
    """
    seen = []
    hooks = [
        block.attention.out_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].mean(dim=(0, 1))))
        for block in model.blocks
    ]
    try:
        model(token_ids)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(seen).unflatten(-1, (model.config.num_heads, -1))
