"""A lookup task (associative recall), whose correct attention map is known, and a one-layer model for it."""

import torch
from torch import nn

from ..checks import check_size, check_token_ids
from ..core import attention_scores
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
            got = f"questions={questions}, pairs={pairs}, letters={letters}"
            raise ValueError(f"there must be questions <= pairs <= letters <= 26, got {got}")
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

    x: symbols (b, num_tokens, 2) of a LookupTask. Returns logits (b, questions, digits). Embeddings are `width` wide,
    and so are context vectors, unless d_out says otherwise. The output layer is linear, or an MLP with `hidden` GELU
    units. Errors: as in MultiHeadAttention; also TypeError or ValueError if x doesn't fit the task.
    """

    def __init__(self, task, width=32, num_heads=1, hidden=0, d_out=None):
        super().__init__()
        self.task = task
        self.embed = nn.Embedding(task.vocab_size, check_size("width", width))
        d_out = width if d_out is None else d_out
        self.attention = MultiHeadAttention(width, d_out, task.pairs + 1, 0.0, num_heads)
        inner = [nn.Linear(d_out, check_size("hidden", hidden)), nn.GELU()] if hidden else []
        self.output_layer = nn.Sequential(*inner, nn.Linear(hidden or d_out, task.questions * task.digits))

    def embedded(self, x):
        check_token_ids("x", x, self.task.vocab_size, self.task.pairs + 1, symbols=(2,))
        return self.embed(x).sum(dim=2)  # (b, num_tokens, width): a token is the sum of its symbols

    def forward(self, x):
        context = self.attention(self.embedded(x))[:, -1]  # (b, d_out)
        answers = self.output_layer(context)  # (b, questions * digits)
        return answers.view(len(x), self.task.questions, self.task.digits)

    def maps(self, x):
        """The attention weights (b, num_heads, num_tokens, num_tokens)."""
        return self.attention.steps(self.embedded(x)).weights


@torch.no_grad()
def qk_circuit(model):
    """What each head of a LookupModel matches: scores (num_heads, questions, letters, letters).

    Row: a letter in the question; column: a letter in a pair. Scores are those that enter softmax. Source: Elhage
    et al. 2021, "A Mathematical Framework for Transformer Circuits", where it's W_E^T W_QK W_E.
    """
    task, attention = model.task, model.attention
    letters = model.embed.weight[: (1 + task.questions) * task.letters].unflatten(0, (-1, task.letters))
    queries = attention.split_heads(attention.W_query(letters[1:]))  # (questions, num_heads, letters, head_dim)
    keys = attention.split_heads(attention.W_key(letters[:1]))  # (1, num_heads, letters, head_dim)
    return attention_scores(queries, keys).transpose(0, 1) / attention.head_dim**0.5


@torch.no_grad()
def ov_circuit(model):
    """What each head of a LookupModel passes on: logits (num_heads, questions, digits, digits).

    Row: the digit in a pair; column: the answer whose logit it raises if the head gives the pair all its weight. We
    leave out the biases, which are the same for every digit. ValueError if the output layer is an MLP, because then
    logits don't add up. Source: Elhage et al. 2021, where it's W_U W_OV W_E.
    """
    task, attention = model.task, model.attention
    if len(model.output_layer) > 1:
        raise ValueError("model must have a linear output layer, got an MLP: its logits aren't a sum over heads")
    digits = model.embed.weight[3 * task.letters : task.blank]  # (digits, width)
    values = attention.split_heads(attention.W_value(digits[None]))  # (1, num_heads, digits, head_dim)
    to_logits = model.output_layer[0].weight @ attention.out_proj.weight  # (questions * digits, width)
    to_logits = attention.split_heads(to_logits[None])  # (1, num_heads, questions * digits, head_dim)
    logits = (values @ to_logits.transpose(-2, -1))[0]  # (num_heads, digits, questions * digits)
    return logits.unflatten(-1, (task.questions, task.digits)).transpose(1, 2)
