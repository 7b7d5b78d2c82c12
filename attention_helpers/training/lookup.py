"""A lookup task (associative recall) with a known attention map, and a one-layer model for it (notebook 07)."""

import torch
from torch import nn

from ..layers import MultiHeadAttention


class LookupTask:
    """Pairs of a letter and a digit, then a question: one letter or two, whose digits are the answers.

    batch(generator) returns x, symbols (batch_size, pairs + 1, 2), and answers, digits (batch_size, questions). Each
    token holds two symbols: a letter and its digit in a pair, two letters (or one and a blank) in the question. A
    letter has three different symbols: one in a pair, one as the first question, one as the second.
    Errors: ValueError unless questions is 1 or 2, and there are at least as many pairs, and letters, up to 26.
    """

    def __init__(self, questions=1, letters=10, digits=10, pairs=6, batch_size=128):
        if questions not in (1, 2) or not questions <= pairs <= letters <= 26:
            got = f"questions={questions}, pairs={pairs}, letters={letters}"
            raise ValueError(f"there must be 1 or 2 questions, and questions <= pairs <= letters <= 26, got {got}")
        self.questions = questions
        self.letters = letters
        self.digits = digits
        self.pairs = pairs
        self.batch_size = batch_size
        self.blank = 3 * letters + digits
        self.vocab_size = self.blank + 1

    def batch(self, generator):
        shape = self.batch_size, self.letters
        letters = torch.rand(shape, generator=generator).argsort(dim=1)[:, : self.pairs]  # no letter twice
        digits = torch.randint(self.digits, letters.shape, generator=generator)
        asked = torch.rand(letters.shape, generator=generator).argsort(dim=1)[:, : self.questions]
        pairs = torch.stack((letters, 3 * self.letters + digits), dim=-1)  # (batch_size, pairs, 2)
        question = torch.full((self.batch_size, 1, 2), self.blank)
        question[:, 0, : self.questions] = letters.gather(1, asked) + self.letters * torch.arange(1, self.questions + 1)
        return torch.cat((pairs, question), dim=1), digits.gather(1, asked)

    def loss(self, outputs, answers):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), answers.flatten())

    def accuracy(self, outputs, answers):
        """The accuracy on each question, from 0 to 1, (questions,)."""
        return (outputs.argmax(dim=-1) == answers).float().mean(dim=0)

    def words(self, tokens):
        """A row of x, (pairs + 1, 2), as you'd write it: ["B 7", "A 3", ..., "A ?"]."""
        letter = [chr(ord("A") + symbol % self.letters) for symbol in tokens[:, 0].tolist()]
        pairs = [f"{a} {symbol - 3 * self.letters}" for a, symbol in zip(letter, tokens[:-1, 1].tolist(), strict=False)]
        second = chr(ord("A") + int(tokens[-1, 1]) % self.letters) if self.questions == 2 else ""
        return [*pairs, f"{letter[-1]}{second} ?"]


class LookupModel(nn.Module):
    """Embed symbols, attend once, and predict the answers from the last token's context vector.

    x: symbols (b, num_tokens, 2) of a LookupTask. Returns logits (b, questions, digits). width: of the embeddings.
    """

    def __init__(self, task, width=32, num_heads=1, d_out=32, dropout=0.0):
        super().__init__()
        self.task = task
        num_tokens = task.pairs + 1
        self.embed = nn.Embedding(task.vocab_size, width)
        sizes = width, d_out, num_tokens, dropout, num_heads
        self.attention = MultiHeadAttention(*sizes)
        self.output_layer = nn.Linear(d_out, task.questions * task.digits)

    def forward(self, x):  # (b, num_tokens, 2)
        tokens = self.embed(x).sum(dim=2)  # (b, num_tokens, width)
        context = self.attention(tokens)[:, -1]  # (b, d_out): the question's
        logits = self.output_layer(context)  # (b, questions * digits)
        return logits.view(len(x), self.task.questions, self.task.digits)
