"""A character model around one attention layer, masked or leaky, and the losses that reveal which it is."""

import numpy as np
import torch
from torch import nn

from .._data import data_file
from ..checks import check_flag, check_size, check_token_ids
from ..layers import MultiHeadAttention
from ..seeded import seeded

NAMES = "masked", "leaky"
FILE = data_file("character_models.npz")


def load_text():
    """The course's own text, a string. Source: data/README.md."""
    return data_file("small_town.txt").read_text(encoding="ascii")


class Characters:
    """Predict the next character of a text; the last `held_out` characters aren't used for training.

    batch(generator) returns x and targets, token ids (batch_size, window); targets is x shifted by one character.
    Errors: TypeError or ValueError if text isn't a string, a size isn't a whole number of at least 1, or a part of the
    text is too short for a window.
    """

    def __init__(self, text, window=32, batch_size=32, held_out=1500):
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {type(text).__name__}")
        self.window, self.batch_size = check_size("window", window), check_size("batch_size", batch_size)
        self.vocabulary = sorted(set(text))
        token_ids = torch.tensor([self.vocabulary.index(character) for character in text])
        self.train, self.held_out = token_ids[: -check_size("held_out", held_out)], token_ids[-held_out:]
        if min(len(self.train), len(self.held_out)) <= window:
            got = f"{len(self.train)} and {len(self.held_out)} characters"
            raise ValueError(f"both parts of the text must be longer than window={window}, got {got}")

    def batch(self, generator):
        starts = torch.randint(len(self.train) - self.window, (self.batch_size, 1), generator=generator)
        windows = self.train[starts + torch.arange(self.window + 1)]  # (batch_size, window + 1)
        return windows[:, :-1], windows[:, 1:]

    def unseen(self):
        """x and targets (windows, window): the held-out part, cut into consecutive windows."""
        windows = self.held_out[:-1].unfold(0, self.window, self.window)
        return windows, self.held_out[1:].unfold(0, self.window, self.window)

    def loss(self, outputs, targets):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def accuracy(self, outputs, targets):
        """The fraction of characters predicted correctly, (1,)."""
        return (outputs.argmax(dim=-1) == targets).float().mean().view(1)


class LeakyMultiHeadAttention(MultiHeadAttention):
    """MultiHeadAttention whose mask hides nothing, as if the result of masked_fill were thrown away."""

    def steps(self, x):
        self.mask.fill_(False)
        return super().steps(x)


class CharacterModel(nn.Module):
    """Character and position embeddings, one attention layer, a residual, LayerNorm and an MLP.

    x: token ids (b, num_tokens) of a Characters task, with num_tokens up to its window. Returns
    logits (b, num_tokens, characters). The output layer is the MLP: one hidden layer with GELU.
    Errors: as in MultiHeadAttention; also TypeError or ValueError if x doesn't fit the task.
    """

    def __init__(self, task, width=64, num_heads=4, hidden=128, dropout=0.0, leaky=False):
        super().__init__()
        attention = LeakyMultiHeadAttention if check_flag("leaky", leaky) else MultiHeadAttention
        self.embed = nn.Embedding(len(task.vocabulary), check_size("width", width))
        self.position = nn.Embedding(task.window, width)
        self.attention = attention(width, width, task.window, dropout, num_heads)
        self.norm = nn.LayerNorm(width)
        inner = nn.Linear(width, check_size("hidden", hidden)), nn.GELU()
        self.output_layer = nn.Sequential(*inner, nn.Linear(hidden, len(task.vocabulary)))

    def embedded(self, x):
        check_token_ids("x", x, self.embed.num_embeddings, longest=self.position.num_embeddings)
        positions = torch.arange(x.shape[1], device=x.device)
        return self.embed(x) + self.position(positions)  # (b, num_tokens, width)

    def forward(self, x):
        tokens = self.embedded(x)
        return self.output_layer(self.norm(tokens + self.attention(tokens)))  # (b, num_tokens, chars)

    def maps(self, x):
        """The attention weights (b, num_heads, num_tokens, num_tokens)."""
        return self.attention.steps(self.embedded(x)).weights


def stored_models():
    """The masked and the leaky model of notebook 08, trained, by name, and the task. Source: data/README.md."""
    task, models = Characters(load_text()), {}
    with np.load(FILE) as sets:
        for name in NAMES:
            models[name] = model = seeded(CharacterModel, 0, task, leaky=name == "leaky")
            parts = {part: torch.from_numpy(sets[f"{name}: {part}"]).float() for part in model.state_dict()}
            model.load_state_dict(parts)
    return models, task


@torch.no_grad()
def prefix_losses(model, x, targets):
    """The loss at the last character of every prefix of x (windows, window), where there is no future to read.

    Returns (window,), in nats; entry n - 1 is for prefixes of n characters. Puts the model in eval mode.
    """
    model.eval()
    losses = [nn.functional.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1]) for n in range(1, x.shape[1] + 1)]
    return torch.stack(losses)


@torch.no_grad()
def generate_text(model, task, start, length, generator):
    """Continue the text `start` by `length` characters, each drawn from the model's softmax. Returns the new ones.

    Errors: TypeError or ValueError if start isn't a
    string, is empty or has a character that isn't in the vocabulary, or if length isn't a whole number of at least 1.
    """
    if not isinstance(start, str):
        raise TypeError(f"start must be a string, got {type(start).__name__}")
    if not start or set(start) - set(task.vocabulary):
        raise ValueError(f"start must be some characters of {''.join(task.vocabulary)!r}, got {start!r}")
    model.eval()
    token_ids = [task.vocabulary.index(character) for character in start]
    for _ in range(check_size("length", length)):
        scores = model(torch.tensor([token_ids[-task.window :]]))[0, -1]  # (characters,)
        token_ids.append(torch.multinomial(scores.softmax(dim=-1), 1, generator=generator).item())
    return "".join(task.vocabulary[token_id] for token_id in token_ids[len(start) :])
