"""A character model around one attention layer, masked or leaky, and losses that reveal which it is (notebook 08)."""

import torch
from torch import nn

from .._data import data_file
from ..layers import MultiHeadAttention


def load_text():
    """The course's own text, a string. Source: data/README.md."""
    return data_file("small_town.txt").read_text(encoding="ascii")


class Characters:
    """Predict the next character of a text; the last `held_out` characters aren't used for training.

    batch(generator) returns x and targets, token ids (batch_size, window); targets is x shifted by one character.
    Errors: ValueError if a part of the text is too short for a window.
    """

    def __init__(self, text, window=32, batch_size=32, held_out=1500):
        self.window = window
        self.batch_size = batch_size
        self.vocabulary = sorted(set(text))
        token_ids = self.token_ids(text)[0]
        self.train = token_ids[:-held_out]
        self.held_out = token_ids[-held_out:]
        if min(len(self.train), len(self.held_out)) <= window:
            got = f"{len(self.train)} and {len(self.held_out)} characters"
            raise ValueError(f"both parts of the text must be longer than window={window}, got {got}")

    def token_ids(self, text):
        """The token ids of a text, (1, characters). ValueError for a character that isn't in the vocabulary."""
        return torch.tensor([[self.vocabulary.index(character) for character in text]])

    def text(self, token_ids):
        """The text of token ids, (characters,)."""
        return "".join(self.vocabulary[token_id] for token_id in token_ids)

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


class CharacterModel(nn.Module):
    """Character and position embeddings, one attention layer, a residual connection, LayerNorm and an MLP.

    x: token ids (b, num_tokens), with num_tokens up to window. Returns logits (b, num_tokens, vocab_size). leaky: the
    mask hides nothing, as if the result of masked_fill were thrown away.
    """

    def __init__(  # leaky: the mask hides nothing
        self, vocab_size, window, width=64, num_heads=4, dropout=0, leaky=False
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(window, width)
        sizes = width, width, window, dropout, num_heads
        self.attention = MultiHeadAttention(*sizes)
        if leaky:
            self.attention.mask.zero_()  # the leak: nothing is hidden
        self.norm = nn.LayerNorm(width)
        mlp = nn.Linear(width, 128), nn.GELU(), nn.Linear(128, vocab_size)
        self.output_layer = nn.Sequential(*mlp)

    def forward(self, x):  # (b, num_tokens): token ids
        positions = torch.arange(x.shape[1], device=x.device)
        tokens = self.embed(x) + self.position(positions)  # (b, num_tokens, width)
        tokens = tokens + self.attention(tokens)
        return self.output_layer(self.norm(tokens))  # (b, num_tokens, vocab_size)


@torch.no_grad()
def generate_text(model, task, start, length, generator):
    """The next `length` characters after the text `start`, each drawn from the model's softmax."""
    if not start or set(start) - set(task.vocabulary):
        raise ValueError(f"start must be some characters of {''.join(task.vocabulary)!r}, got {start!r}")
    model.eval()
    token_ids = task.token_ids(start)[0].tolist()
    for _ in range(length):
        logits = model(torch.tensor([token_ids[-task.window :]]))[0, -1]  # (characters,)
        token_ids.append(torch.multinomial(logits.softmax(dim=-1), 1, generator=generator).item())
    return task.text(token_ids[len(start) :])
