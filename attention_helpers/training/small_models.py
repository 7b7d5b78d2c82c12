"""The small character models of notebooks 10 and 11, of two blocks each; and all models that are stored trained."""

from functools import partial

import numpy as np
import torch
from torch import nn

from .._data import data_file
from ..modern.cached import CachedAttention
from ..modern.positions import RotaryAttention
from .characters import CharacterModel, Characters, load_text

FILE = data_file("trained_models.npz")
LONGEST = 128  # characters, of a WritingModel's text


class Block(nn.Module):
    """Attention and an MLP, each after RMSNorm, and each added to what it gets.

    x: (b, num_new, width); attention and cache: as in CachedAttention. Returns (b, num_new, width) and the new cache.
    """

    def __init__(self, attention, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.attention = attention
        inner = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        self.mlp = nn.Sequential(nn.RMSNorm(width), *inner)

    def forward(self, x, cache=None):
        context, cache = self.attention(self.norm(x), cache)
        x = x + context
        return x + self.mlp(x), cache


class RotaryModel(nn.Module):
    """Two blocks with rotary positions.

    x: token ids (b, num_tokens), of any length. Returns logits (b, num_tokens, vocab_size).
    """

    def __init__(self, vocab_size, width=64, num_heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        attend = partial(RotaryAttention, width, width, num_heads, num_heads)
        self.blocks = nn.ModuleList(Block(attend(), width) for _ in range(2))
        self.output_layer = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, vocab_size))

    def change(self, **attributes):
        """Give the attention of all blocks other attributes, such as frequencies or window. Returns self."""
        for block in self.blocks:
            vars(block.attention).update(attributes)
        return self

    def forward(self, x):
        tokens = self.embed(x)  # (b, num_tokens, width)
        for block in self.blocks:
            tokens, _ = block(tokens)
        return self.output_layer(tokens)


class WritingModel(nn.Module):
    """Two blocks that pass on their KV caches; positions are sines, as in Vaswani et al. 2017, section 3.5.

    x: new token ids (b, num_new); past: how many tokens came before; caches: what the previous call returned, or None.
    Returns logits (b, num_new, vocab_size) and the blocks' new caches. attention: the class of its attention layers.
    Errors: ValueError for more than LONGEST tokens.
    """

    def __init__(self, vocab_size, attention=CachedAttention, width=64, num_heads=4, num_kv_heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embed.weight, std=0.5)  # so that positions, whose entries reach 1, stand out
        frequencies = 1000.0 ** (-torch.arange(0, width, 2) / width)  # a smaller base than theirs, for shorter texts
        angles = torch.arange(LONGEST)[:, None] * frequencies
        self.register_buffer("positions", torch.cat((angles.sin(), angles.cos()), dim=1))  # (LONGEST, width)
        attend = partial(attention, width, width, num_heads, num_kv_heads)
        self.blocks = nn.ModuleList(Block(attend(), width) for _ in range(2))
        self.output_layer = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, vocab_size))

    def forward(self, x, past=0, caches=(None, None)):
        if past + x.shape[1] > LONGEST:
            raise ValueError(f"the text can have {LONGEST} characters, got {past + x.shape[1]}")
        tokens = self.embed(x) + self.positions[past : past + x.shape[1]]  # (b, num_new, width)
        new = []
        for block, cache in zip(self.blocks, caches, strict=True):
            tokens, cache = block(tokens, cache)
            new.append(cache)
        return self.output_layer(tokens), new


def load(name, **options):
    """A stored model after training, in eval mode, without gradients.

    name: "masked" or "leaky", the CharacterModels of notebook 08; "writing", the WritingModel of notebook 10; "rotary",
    the RotaryModel of notebook 11. options: of the model's class, such as attention.
    Errors: ValueError for another name. Source: data/README.md, which has the command that trains them again.
    """
    size = len(Characters(load_text()).vocabulary)
    models = {
        "masked": partial(CharacterModel, size, 32),
        "leaky": partial(CharacterModel, size, 32, leaky=True),
        "writing": partial(WritingModel, size),
        "rotary": partial(RotaryModel, size),
    }
    if name not in models:
        raise ValueError(f"name must be one of {', '.join(models)}, got {name!r}")
    with torch.random.fork_rng(devices=[]):  # weights are drawn first, and replaced
        model = models[name](**options)
    with np.load(FILE) as stored:
        for part, parameter in model.named_parameters():
            parameter.data.copy_(torch.from_numpy(stored[f"{name}: {part}"]))
    return model.requires_grad_(False).eval()


def held_out_windows(task, length):
    """Stretches of the held-out text, each 64 characters after the one before: token ids (windows, length + 1)."""
    return task.held_out.unfold(0, length + 1, 64)


@torch.no_grad()
def losses_by_position(model, task, length=256):
    """The mean loss at each position of held-out texts of so many characters, (length,), in nats."""
    windows = held_out_windows(task, length)
    logits = model(windows[:, :-1]).transpose(1, 2)
    return nn.functional.cross_entropy(logits, windows[:, 1:], reduction="none").mean(dim=0)
