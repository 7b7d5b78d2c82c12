"""Draw the matrices of a layer from a seed, in one order or another."""

from functools import cache

import torch
from torch import nn

import attention_helpers
from attention_course.mistakes import with_mistake
from attention_helpers import CausalAttention, load_sentence
from attention_helpers.dropout import draw_dropout_from

AFTER_TRAINING = "CausalAttention in training"  # whose dropout draws, too


@cache
def embeddings(name):
    return load_sentence(name).embeddings


@cache
def make_layer(name, sizes, qkv_bias, mistake, dtype):
    """A layer that each recipe of its kind draws again."""
    made = getattr(attention_helpers, name)
    if mistake:
        made = with_mistake(made, mistake)
    options = {"qkv_bias": True} if qkv_bias else {}
    return draw_dropout_from(made(*sizes, **options).to(dtype))


def parts_in_order(layer, order):
    """(name, part) for each matrix, in the order in which they're drawn, head after head."""
    plain = layer.named_parameters(recurse=False)
    parts = [(*name.rpartition("."), part) for name, part in (*plain, *layer.named_modules())]
    chosen = [(head, order.index(name), name, part) for head, _, name, part in parts if name in order]
    return [(name, part) for _, _, name, part in sorted(chosen, key=lambda found: found[:2])]


def draw_part(part, draw):
    """Draw a matrix, and its bias if it has one, again."""
    if isinstance(part, nn.Linear) and not draw:
        part.reset_parameters()
        return
    function = torch.randn if draw == "randn" else torch.rand
    if isinstance(part, nn.Linear):
        part.weight.data.copy_(function(part.weight.shape[::-1], dtype=part.weight.dtype).mT)
    else:
        part.data.copy_(function(part.shape, dtype=part.dtype))


def draw_before(name, sizes):
    """What was drawn from the same seed before: a layer of these sizes, or one that was called in training, too."""
    if name != AFTER_TRAINING:
        getattr(attention_helpers, name)(*sizes)
        return
    x = embeddings("journey")
    draw_dropout_from(CausalAttention(3, 2, 6, 0.5))(torch.stack((x, x)))


def matrices_of(layer):
    """Copies of a layer's matrices, which will be drawn again, and of plain ones as nn.Linear stores them, by name."""
    found = {name.removesuffix(".weight"): part.detach().clone() for name, part in layer.named_parameters()}
    plain = {f"{name}, transposed": part.detach().mT.clone() for name, part in layer.named_parameters(recurse=False)}
    return found | plain
