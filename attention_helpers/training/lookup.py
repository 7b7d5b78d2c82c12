"""A lookup task (associative recall), whose correct attention map is known, and a one-layer model for it."""

import torch
from torch import nn

from ..checks import check_size, check_token_ids
from ..layers import MultiHeadAttention


class LookupTask:
    """Pairs of a letter and a digit, then a question: one letter or two, whose digits are the answers.

    batch(generator) returns x, symbols (batch_size, pairs + 1, 2), and answers, digits (batch_size, questions). Each
    token holds two symbols: a letter and its digit in a pair, two letters (or one and a blank) in the question. A
    letter has three different symbols: one in a pair, one as the first question, one as the second.
    Errors: TypeError or ValueError if a size isn't a whole number of at least 1, for more pairs than letters, more
    than 26 letters, or more than 2 questions.
    """

    def __init__(self, questions=1, letters=10, digits=10, pairs=6, batch_size=128):
        self.questions, self.letters = check_size("questions", questions), check_size("letters", letters)
        self.digits, self.pairs = check_size("digits", digits), check_size("pairs", pairs)
        self.batch_size = check_size("batch_size", batch_size)
        if questions > 2:
            raise ValueError(f"questions must be 1 or 2, got {questions}")
        if not questions <= pairs <= letters <= 26:
            raise ValueError(
                f"there must be questions <= pairs <= letters <= 26, got questions={questions}, pairs={pairs}, "
                f"letters={letters}"
            )
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

    x: symbols (b, num_tokens, 2) of a LookupTask. Returns logits (b, questions, digits). The output
    layer is linear, or an MLP with `hidden` GELU units. Errors: as in MultiHeadAttention; also
    TypeError or ValueError if x doesn't fit the task.
    """

    def __init__(self, task, width=32, num_heads=1, hidden=0):
        super().__init__()
        self.task = task
        self.embed = nn.Embedding(task.vocab_size, check_size("width", width))
        self.attention = MultiHeadAttention(width, width, task.pairs + 1, 0.0, num_heads)
        inner = [nn.Linear(width, check_size("hidden", hidden)), nn.GELU()] if hidden else []
        logits = nn.Linear(hidden or width, task.questions * task.digits)
        self.output_layer = nn.Sequential(*inner, logits)

    def embedded(self, x):
        check_token_ids("x", x, self.task.vocab_size, self.task.pairs + 1, symbols=(2,))
        return self.embed(x).sum(dim=2)  # (b, num_tokens, width): a token is the sum of its symbols

    def forward(self, x):
        context = self.attention(self.embedded(x))[:, -1]  # (b, width)
        answers = self.output_layer(context)  # (b, questions * digits)
        return answers.view(len(x), self.task.questions, self.task.digits)

    def maps(self, x):
        """The attention weights (b, num_heads, num_tokens, num_tokens)."""
        return self.attention.steps(self.embedded(x)).weights
