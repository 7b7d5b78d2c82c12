"""Exercises of notebook 03: hide the future, and find out whether it is hidden."""
# After a change: make exercises, then make refresh NOTEBOOK=03

import inspect

import torch
from torch import nn

from attention_helpers.probes import influence
from attention_helpers.sentences import load_sentence

from .base import Exercise, Progress


def causal_weights(scores):
    """Weights of scaled scores (num_tokens, num_tokens), row by row: no token looks at a later one."""
    future = torch.ones_like(scores).triu(diagonal=1).bool()
    return torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)


def scaled_scores(generator):
    """The lookup with the question before its pair and after it, extreme scores, and a single token."""
    x = load_sentence("lookup").embeddings  # entries: A B C 1 2 3 ?
    both = torch.stack((x[[0, 3, 2, 1]], x))  # (2, 4, 7)
    keys = 10 * (both[..., :3] - both[..., 6:])  # (2, 4, 3), a question isn't found
    lookups = both[..., :3] @ keys.transpose(1, 2) / 3**0.5  # (2, 4, 4)
    wide = torch.randn(6, 6, generator=generator)
    wide[0, 3] = 1000.0  # hidden
    wide[4] = -1000.0  # the visible ones, too
    return [(scores,) for scores in (*lookups, wide, torch.ones(1, 1))]


def masks_after_softmax_and_divides(scores):
    kept = torch.softmax(scores, dim=-1).tril()
    return kept / kept.sum(dim=-1, keepdim=True)


hide_the_future = Exercise(
    name="hide_the_future",
    title="Hide the future",
    prompt="Turn scaled scores, (num_tokens, num_tokens), into weights, so that each token sees only itself and the "
    "tokens before it. The scores are between -1000 and 1000, and you shouldn't change `scores` itself.",
    solution=causal_weights,
    cases=scaled_scores,
    mistakes={
        ("hides the diagonal", "diagonal=1", ""): """
            You hide the diagonal too, so no token sees itself. What's left for the first token to see?""",
        ("shows the next token", "diagonal=1", "diagonal=2"): """
            One token of the future is still visible. Row i sees column i + 1, which is the token that it should
            predict. Where does the future begin?""",
        ("lets True mean keep", "(future,", "(~future,"): """
            You hide where the mask of the future is False, so your tokens look at nothing but the future. Where should
            `masked_fill` find True?""",
        ("fills with 0", "-torch.inf", "0.0"): """
            You fill in 0, but softmax gives a score of 0 a share too, because $e^0 = 1$. Which score gets nothing?""",
        ("masks after softmax", ".masked_fill(future, -torch.inf), dim=-1)", ", dim=-1).masked_fill(future, 0.0)"): """
            You mask after softmax, when the hidden tokens have already taken their part of the row. What do your rows
            sum to?""",
        ("masks after softmax and divides", masks_after_softmax_and_divides): """
            That's right on paper. But next to a hidden score of 1000, softmax leaves 0 for all others, and 0/0 is
            NaN. What if softmax never sees the hidden scores?""",
        ("throws the masked copy away", "scores.masked_fill(future, -torch.inf)", "scores"): """
            Nothing is hidden, so the early question reads its answer from the future. `masked_fill` returns a masked
            copy. Does softmax get that copy?""",
        ("fills with -100", "-torch.inf", "-100.0"): """
            -100 is a score like any other, and here one row has only scores of -1000. Which value is below every
            score?""",
        ("sums the columns", "dim=-1", "dim=0"): """
            Your columns sum to 1, but a token's weights are a row. Along which dimension does softmax go?""",
    },
    hints=[
        "Write down for three tokens which of the nine scores should be hidden. Is the diagonal among them?",
        "`triu(diagonal=1)` leaves the diagonal out, and `.bool()` turns ones into True. Does the mask come before "
        "softmax or after it?",
        "With `future = torch.ones_like(scores).triu(diagonal=1).bool()`, take the softmax of "
        "`scores.masked_fill(future, -torch.inf)` with `dim=-1`.",
    ],
    why="The keys j > i, above the diagonal, are the future of query i, and softmax divides the whole 1 among the "
    "scores that are left, no matter how large a hidden one was.",
    moral="The early question guesses, and the late one finds its pair.",
)


def leaks(f, x):
    """True if moving a token of x (num_tokens, d_in) moves a row of f(x) before it."""
    return influence(f, x).perturbation.triu(diagonal=1).max().item() > 1e-5


def attention(*holes, centred=False):
    """A causal function of x (num_tokens, d_in), but for holes (i, j) in its mask, and for a mean over all tokens."""
    future = torch.ones(6, 6).triu(diagonal=1).bool()
    for hole in holes:
        future[hole] = False

    def f(x):
        scores = (x @ x.T).masked_fill(future[: len(x), : len(x)], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ x  # (num_tokens, d_in)
        return context - context.mean(dim=0) if centred else context

    return f


def sound_and_leaky_functions(generator):
    """Two causal functions, one of them for a single token; two with a hole, and one that leaks after its weights."""
    functions = (attention(), 6), (attention((2, 3)), 6), (attention((1, 4)), 6), (attention(centred=True), 4)
    return [(f, torch.randn(n, 3, generator=generator)) for f, n in (*functions, (attention(), 1))]


find_leaks = Exercise(
    name="find_leaks",
    imports="from attention_helpers import influence",
    title="Does it leak?",
    prompt="Return True if some row of `f(x)` moves by more than 1e-5 when a later token is perturbed, else False. x "
    "is (num_tokens, d_in), and should stay as it is. Judge `f` only by what it returns.",
    solution=leaks,
    cases=sound_and_leaky_functions,
    mistakes={
        ("looks at the past", "triu(diagonal=1)", "tril(diagonal=-1)"): """
            You check whether a token moves the rows after it, and it should. Which rows does a leak move?""",
        ("counts the token's own row", "diagonal=1", ""): """
            You call every function leaky, because you count the row of the perturbed token itself. Can that row move in
            a causal layer?""",
        ("says the opposite", "> 1e-5", "<= 1e-5"): """
            Your answers are all the wrong way round. Is it a large or a small number there that shows a leak?""",
        ("perturbs only the last token", ".triu(diagonal=1).max()", "[:-1, -1].sum()"): """
            You perturb only the last token. But two masks here have one hole each, through which one token moves one
            earlier row. Which tokens could that be?""",
    },
    hints=[
        "Which entries of an influence map show that a later token moves an earlier row?",
        "Row i, column j of `influence(f, x).perturbation` says how far token j moves row i.",
        "`influence(f, x).perturbation.triu(diagonal=1)` holds what should be 0. Compare its maximum with 1e-5.",
    ],
    why="In a leak, row i moves with a later token j, so wherever it happens in the layer, the influence map has an "
    "entry above the diagonal that isn't 0.",
    moral="It works for any function with one row per token.",
)


class MaskedAttention(nn.Module):
    """Causal attention, (b, num_tokens, d_in) -> (b, num_tokens, d_out)."""

    def __init__(self, d_in, d_out, context_length):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, d_out, bias=False)
        self.W_value = nn.Linear(d_in, d_out, bias=False)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2)  # (b, num_tokens, num_tokens)
        scaled = scores / keys.shape[-1] ** 0.5
        scaled = scaled.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        return torch.softmax(scaled, dim=-1) @ values  # (b, num_tokens, d_out)


mend_the_leak = Exercise(
    name="mend_the_leak",
    imports="from torch import nn\nfrom attention_helpers import influence",
    title="Find and fix the leak",
    prompt="This layer should be causal, but it leaks, and not because a result is thrown away. Fix the one line "
    "that's wrong, and keep the rest. To hunt for it, run the cell. Then, in a new cell, look at "
    "`influence(MaskedAttention(3, 2, 6), torch.randn(1, 6, 3)).perturbation`.",
    solution=MaskedAttention,
    stub=inspect.getsource(MaskedAttention).replace("triu(1)", "triu(2)"),
    call=lambda answer, x, d_out, context_length: answer(x.shape[-1], d_out, context_length)(x),
    cases=lambda g: [
        (3 * torch.randn(*shape, generator=g), d_out, longest)
        for *shape, d_out, longest in [(1, 6, 3, 2, 6), (2, 4, 3, 5, 6), (1, 1, 2, 2, 1), (3, 5, 6, 4, 9)]
    ],
    mistakes={
        ("hides each token from itself", "triu(1)", "triu()"): """
            Now no token sees itself. The first token sees nothing at all, so its row is NaN. Which diagonal is the
            first of the future?""",
        ("hides the past", "triu(1)", "tril(-1)"): """
            Now the past is hidden, and the future can be seen. On which side of the diagonal is the future?""",
        ("throws the masked copy away", "scaled = scaled.masked_fill", "masked = scaled.masked_fill"): """
            Your mask is right, but softmax gets scores that aren't masked. Which name does it get?""",
        ("takes the whole mask", "self.mask[:num_tokens, :num_tokens]", "self.mask"): """
            That's fixed for sentences of `context_length` tokens, but not for shorter ones. Which part of the mask does
            a shorter sentence need?""",
        ("loses the scaling", "scaled.masked_fill", "scores.masked_fill"): """
            The leak is fixed, but the scaling is lost. Which scores do you mask, those before the division by
            $\\sqrt{d_k}$ or those after it?""",
    },
    hints=[
        "Which entries above the diagonal of the influence map aren't 0?",
        "Each row moves with the very next token, and with none after that. Which line decides what a row can see?",
        "The mask should begin one diagonal earlier: write `triu(1)`.",
    ],
    why="With `triu(2)` the mask begins one diagonal too late, so each token can see the next one, which is just the "
    "token that a language model should predict.",
    moral="Look at `influence` again: now all cells above the diagonal are 0. It was a small leak, but it would have "
    "shown a model every answer.",
)


def sliding_window_mask(num_tokens, window):
    """Boolean mask (num_tokens, num_tokens), True where the key is too late or too far back."""
    ones = torch.ones(num_tokens, num_tokens).bool()
    return ones.triu(diagonal=1) | ones.tril(diagonal=-window)


def counts_the_rows_that_are_left(num_tokens, window):
    hidden = torch.ones(num_tokens, num_tokens).bool().triu(1)
    hidden[window:] |= torch.ones(num_tokens - window, num_tokens).bool().tril()
    return hidden


window_mask = Exercise(
    name="window_mask",
    title="A sliding window",
    prompt="In a long text, a token doesn't have to see everything before it. Make a mask in which each token sees "
    "only itself and the `window - 1` tokens before it. True means hide. `window` is at least 1, and can be larger "
    "than num_tokens.",
    solution=sliding_window_mask,
    cases=lambda g: [(6, 3), (6, 1), (5, 2), (4, 4), (4, 9), (1, 1)],
    mistakes={
        ("sees one token too many", "-window", "-window - 1"): """
            Your tokens see one token too many. With a window of 1, which tokens should a token see?""",
        ("sees one token too few", "-window", "1 - window"): """
            Your tokens see one token too few. With a window of 1, does a token still see itself?""",
        ("lets True mean keep", "ones.triu(diagonal=1) | ones", "~ones.triu(diagonal=1) & ~ones"): """
            Your mask is upside down: it's True in the window, and False outside. What does True mean here?""",
        ("joins with and", " | ", " & "): """
            Nothing is hidden, because no key is both too late and too far back. Which operator means either?""",
        ("forgets the future", "ones.triu(diagonal=1) | ", ""): """
            You hide what's too far back, but the future is open. Should a token see it?""",
        ("fails on short texts", counts_the_rows_that_are_left): """
            That works until the window is larger than the text. How many tokens are out of sight then?""",
        ("forgets the window", " | ones.tril(diagonal=-window)", ""): """
            That's the causal mask, in which a token sees its whole past. What about tokens `window` or more steps
            back?""",
    },
    hints=[
        "Two things are hidden, the future and what's too far back. Can you make a mask for each?",
        "With a window of 3, token 5 sees tokens 3, 4 and 5. So token 2, which is 3 steps back, is the first hidden "
        "one.",
        "`tril(diagonal=-window)` keeps what's `window` or more below the diagonal, and `|` joins two masks.",
    ],
    why="Key j is hidden from query i if j > i, which is the triangle above the diagonal, or if j <= i - window, "
    "which is the triangle that begins `window` below it.",
    moral="With a window of num_tokens or more you get the causal mask again.",
)


EXERCISES = [hide_the_future, find_leaks, mend_the_leak, window_mask]
progress = Progress(EXERCISES)
