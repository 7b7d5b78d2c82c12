"""A character model that writes token by token: its attention layers pass their KV caches from one call to the next."""

import numpy as np
import torch
from torch import nn

from .._data import data_file
from ..modern.layers import ModernAttention
from ..seeded import seeded
from .characters import Characters, load_text

FILE = data_file("writing_model.npz")
CONTEXT_LENGTH = 128


class PlainAttention(ModernAttention):
    """ModernAttention without rotary positions. forward returns the output and the cache, like notebook 10's class."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__(d_in, d_out, num_heads, num_kv_heads, base=None)

    def forward(self, x, cache=None):
        return self.step(x, cache)


class WritingModel(nn.Module):
    """A character model of two layers, attention and an MLP, after RMSNorm, with residuals; positions are sines.

    attention: the class of its attention layers, made with (width, width, num_heads, num_kv_heads); forward(x, cache)
    returns the output for x and the extended cache.
    Called with new token ids (b, num_new), the number of tokens before them and the layers' caches, or None for none.
    Returns logits (b, num_new, characters) and the layers' new caches. Errors: ValueError past CONTEXT_LENGTH tokens.
    """

    def __init__(self, vocabulary, attention=PlainAttention, width=64, num_heads=4, num_kv_heads=2):
        super().__init__()
        self.vocabulary = vocabulary
        self.embed = nn.Embedding(len(vocabulary), width)
        nn.init.normal_(self.embed.weight, std=0.5)  # so that positions, whose entries reach 1, stand out
        self.register_buffer("positions", sines(width), persistent=False)
        self.norms, self.attention, self.mlps = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for _ in range(2):
            self.norms.append(nn.RMSNorm(width))
            self.attention.append(attention(width, width, num_heads, num_kv_heads))
            inner = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            self.mlps.append(nn.Sequential(nn.RMSNorm(width), *inner))
        self.output_layer = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, len(vocabulary)))

    def forward(self, token_ids, past=0, caches=None):
        end = past + token_ids.shape[1]
        if end > CONTEXT_LENGTH:
            raise ValueError(f"the text must have at most {CONTEXT_LENGTH} characters, got {end}")
        x, new = self.embed(token_ids) + self.positions[past:end], []  # (b, num_new, width)
        layers = zip(self.norms, self.attention, self.mlps, caches or (None, None), strict=True)
        for norm, attention, mlp, cache in layers:
            output, cache = attention(norm(x), cache)
            x = x + output
            x = x + mlp(x)
            new.append(cache)
        return self.output_layer(x), new

    def ids_of(self, text):
        """The token ids of a text, (1, characters)."""
        return torch.tensor([[self.vocabulary.index(character) for character in text]])

    def text_of(self, token_ids):
        return "".join(self.vocabulary[token_id] for token_id in token_ids[0])


def sines(width):
    """A row for each position, (CONTEXT_LENGTH, width), as in Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.

    The base is smaller than theirs, because our texts are shorter.
    """
    angles = torch.arange(CONTEXT_LENGTH)[:, None] * 1000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.cat((angles.sin(), angles.cos()), dim=1)


def task():
    """What the stored model was trained on: 128 characters of the course's own text at a time."""
    return Characters(load_text(), window=CONTEXT_LENGTH, batch_size=8)


def trained(attention=PlainAttention):
    """The stored model, its weights loaded by name into attention layers of this class.

    Source: data/README.md, which has the command that trains it again.
    """
    model = seeded(WritingModel, 0, task().vocabulary, attention)
    with np.load(FILE) as sets:
        model.load_state_dict({name: torch.from_numpy(sets[name]) for name in model.state_dict()})
    return model.eval().requires_grad_(False)
