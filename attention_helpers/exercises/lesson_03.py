"""Exercises of notebook 03: hide the future, and find out whether it is hidden."""

import inspect

import torch
from torch import nn

from ..dropout import Dropout
from ..layers import CausalAttention
from ..probes import influence
from .base import Exercise, Progress


def causal_mask(num_tokens):
    """Boolean mask (num_tokens, num_tokens), True where the key comes after the query."""
    return torch.ones(num_tokens, num_tokens).triu(diagonal=1).bool()


mask_of_the_future = Exercise(
    name="mask_of_the_future",
    title="A causal mask",
    prompt="Make the causal mask for `num_tokens` tokens: a boolean table, a row for each query, a column "
    "for each key. True means hide, as in this notebook. A token sees itself and those before it, no others.",
    solution=causal_mask,
    cases=lambda g: [(n,) for n in (6, 1, 2, 5)],
    mistakes=[
        (
            "hides the diagonal",
            "diagonal=1",
            "",
            "You hide the diagonal too: no token sees itself, and the first sees nothing at all.",
        ),
        (
            "shows the next token",
            "diagonal=1",
            "diagonal=2",
            "One token of the future is still visible: row i sees column i + 1, the token to be predicted.",
        ),
        (
            "hides the past",
            "triu(diagonal=1)",
            "tril(diagonal=-1)",
            "You hide the past and show the future. On which side of the diagonal are the columns j > i?",
        ),
        (
            "lets True mean keep",
            "triu(diagonal=1)",
            "tril()",
            "True means keep in torch's `scaled_dot_product_attention`. Here it means hide: negate yours.",
        ),
    ],
    hints=[
        "Write down the table for three tokens. How many of its nine entries are True?",
        "`triu` keeps the upper triangle of a table; its argument `diagonal` says where that begins.",
        "A table of ones, then `.triu(diagonal=1)`, then `.bool()`.",
    ],
    why="The future of query i is the keys j > i, above the diagonal. `triu(diagonal=1)` leaves it "
    "out: every token sees itself, so no row is hidden whole, and no row of weights is NaN.",
    moral="No row is hidden whole, so softmax always has something to share out.",
)


def masked_weights(scores, mask):
    """Weights of scores (..., n, m), row by row; mask (n, m) is True where a score is hidden."""
    return torch.softmax(scores.masked_fill(mask, -torch.inf), dim=-1)


def scores_and_masks(generator):
    """Extreme scores; a batch; float16; one token; a mask that is not causal."""
    one, batch, wide = (torch.randn(*shape, generator=generator) for shape in ((6, 6), (2, 4, 4), (3, 5)))
    one[0, 3] = 1000.0  # hidden
    one[4] -= 500.0  # far below 0, the visible ones too
    holes = torch.rand(3, 5, generator=generator) < 0.5
    holes[:, 1] = False  # something is left to see in every row
    half = torch.zeros(2, 2).half()  # its weights, 1 and 1/2, are exact
    return [(s, causal_mask(s.shape[-1])) for s in (one, batch, half, torch.ones(1, 1))] + [(wide, holes)]


weights_under_a_mask = Exercise(
    name="weights_under_a_mask",
    title="Weights under a mask",
    prompt="Turn scaled scores, (n, m) or a batch (b, n, m), into weights. The mask (n, m) is True where a "
    "score is hidden; no row is hidden whole. Scores lie between -1000 and 1000. They may be float16, and "
    "so are their weights then. Leave the caller's scores as they are.",
    solution=masked_weights,
    cases=scores_and_masks,
    rows_sum_to_one=True,
    mistakes=[
        (
            "fills with 0",
            "-torch.inf",
            "0.0",
            "Softmax gives a score of 0 a share all the same, for $e^0 = 1$. Which score gets nothing?",
        ),
        (
            "masks after softmax",
            "scores.masked_fill(mask, -torch.inf), dim=-1)",
            "scores, dim=-1).masked_fill(mask, 0.0)",
            "You mask after softmax, so what the hidden tokens had is missing: the rows do not sum to 1.",
        ),
        "masks after softmax and divides",
        (
            "throws the masked copy away",
            "scores.masked_fill(mask, -torch.inf)",
            "scores",
            "Nothing is hidden. `masked_fill` returns a masked copy, and softmax must get that copy.",
        ),
        (
            "counts the dimensions from the left",
            "dim=-1",
            "dim=1",
            "Right for one sentence. In a batch (b, n, m) dimension 1 is that of the queries. Name the last.",
        ),
        (
            "fills with -1e9",
            "-torch.inf",
            "-1e9",
            "Right in float32, but float16 ends at -65504. Which value lies below all numbers, in any dtype?",
        ),
    ],
    hints=[
        "Change the scores so that softmax gives the hidden ones exactly nothing.",
        "$e^{-\\infty} = 0$. `masked_fill(mask, value)` returns a copy, and spreads the mask over a batch.",
        "`torch.softmax(..., dim=-1)` of `scores.masked_fill(mask, -torch.inf)`.",
    ],
    why="A score of minus infinity gets the share 0, and softmax shares out the whole 1 among the others, "
    "however large the hidden score was. `masked_fill` fills a copy, and float16 has minus infinity too.",
    moral="It works for any mask that leaves something to see in every row.",
)


@weights_under_a_mask.mistake
def masks_after_softmax_and_divides(scores, mask):
    """Right on paper. Beside a hidden 1000 softmax leaves the others 0, and 0/0 is NaN. Mask first."""
    kept = torch.softmax(scores, dim=-1) * ~mask
    return kept / kept.sum(dim=-1, keepdim=True)


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


def run_layer(answer, x, d_out, context_length):
    torch.default_generator.manual_seed(d_out)
    return answer(x.shape[-1], d_out, context_length)(x)


mend_the_leak = Exercise(
    name="mend_the_leak",
    imports="from torch import nn",
    title="Find and mend the leak",
    prompt="This layer should be causal, and leaks. Mend the one line that is wrong, for any `num_tokens` up "
    "to `context_length`, and keep the rest. To hunt, run the cell, then in a new one "
    "`layer = MaskedAttention(3, 2, 6)`, and look at `influence(layer, inputs[None]).perturbation` "
    "and `trace(layer, inputs[None])`.",
    solution=MaskedAttention,
    stub=inspect.getsource(MaskedAttention).replace("scaled = scaled.", "scaled."),
    call=run_layer,
    cases=lambda g: [
        (3 * torch.randn(*shape, generator=g), d_out, longest)
        for *shape, d_out, longest in [(1, 6, 3, 2, 6), (2, 4, 3, 5, 6), (1, 1, 2, 2, 1), (3, 5, 6, 4, 9)]
    ],
    mistakes=[
        (
            "masks what nobody reads",
            "scaled = scaled.masked_fill",
            "masked = scaled.masked_fill",
            "It still leaks: softmax reads scores that are not masked. Follow the name that it is given.",
        ),
        (
            "takes the whole mask",
            "self.mask[:num_tokens, :num_tokens]",
            "self.mask",
            "Mended for `context_length` tokens only. A shorter sentence takes the mask's upper left corner.",
        ),
        (
            "turns the mask around",
            "self.mask[:num_tokens, :num_tokens]",
            "self.mask[:num_tokens, :num_tokens].T",
            "Now the past is hidden and the future is seen. The mask was right as it stood.",
        ),
        "masks after softmax",
        (
            "loses the scaling",
            "scaled.masked_fill",
            "scores.masked_fill",
            "The leak is mended, but you mask the scores from before the division by $\\sqrt{d_k}$.",
        ),
    ],
    hints=[
        "`influence` says that it leaks. Where? Look in the table of `trace` for a row that is never used.",
        "`masked_fill` returns a copy and leaves its own tensor as it is. Who gets the copy?",
        "Write `scaled = ` before the line, or an underscore behind the method's name.",
    ],
    why="`masked_fill` returns a masked copy. Without `scaled = ` the copy is thrown away, and softmax reads "
    "the old scores. Mended, `trace` finds no unused result, and `influence` is 0 above the diagonal.",
    moral="Look once more at `influence` and `trace`: zeros above the diagonal, and no unused result.",
)


@mend_the_leak.mistake
class MasksAfterSoftmax(MaskedAttention):
    """The future is hidden, but the rows of your weights no longer sum to 1. Mask before softmax."""

    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2)
        weights = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1)
        return weights.masked_fill(self.mask[:num_tokens, :num_tokens], 0) @ values


def sliding_window_mask(num_tokens, window):
    """Boolean mask (num_tokens, num_tokens), True where the key is too late or too far back."""
    ones = torch.ones(num_tokens, num_tokens).bool()
    return ones.triu(diagonal=1) | ones.tril(diagonal=-window)


window_mask = Exercise(
    name="window_mask",
    title="A sliding window",
    prompt="Make a mask for attention that looks back only so far: each token sees itself and the `window - 1` "
    "tokens before it, no others. True means hide. `window` is 1 or more, even above num_tokens.",
    solution=sliding_window_mask,
    cases=lambda g: [(6, 3), (6, 1), (5, 2), (4, 4), (4, 9), (1, 1)],
    mistakes=[
        (
            "sees one token too many",
            "-window",
            "-window - 1",
            "Your tokens see one too many. A window of 1 is the token itself, and none before it.",
        ),
        (
            "sees one token too few",
            "-window",
            "1 - window",
            "Your tokens see one too few: with a window of 1, not even themselves.",
        ),
        (
            "forgets the future",
            "ones.triu(diagonal=1) | ",
            "",
            "What is too far back is hidden, but the future is open. Hide both.",
        ),
        (
            "forgets the window",
            " | ones.tril(diagonal=-window)",
            "",
            "This is the causal mask: hide what lies `window` or more tokens back as well.",
        ),
    ],
    hints=[
        "Two things are hidden: the future, and what is too far back. Make a mask for each.",
        "With a window of 3, token 5 sees tokens 3, 4 and 5. The first hidden one, token 2, is 3 steps back.",
        "`tril(diagonal=-window)` keeps what is `window` or more below the diagonal; `|` joins two masks.",
    ],
    why="Key j is hidden from query i if j > i or j <= i - window: one triangle above the diagonal, one "
    "`window` below it. The band between them, j from i - window + 1 to i, is `window` keys wide.",
    moral="A window of num_tokens or more gives the causal mask back.",
)


def leaks(layer, x):
    """True if moving a token of x (1, num_tokens, d_in) moves a row of layer(x) before it."""
    return influence(layer, x).perturbation.triu(diagonal=1).max().item() > 1e-5


class CentredAttention(CausalAttention):
    """Its weights are causal, its output is not: the mean is taken over all tokens."""

    def forward(self, x):
        return super().forward(x) - super().forward(x).mean(dim=1, keepdim=True)


def sound_and_leaky_layers(generator):
    """A causal layer, one in training, two with a hole for one token, one that leaks after its weights."""
    torch.default_generator.manual_seed(0)  # a new nn.Linear draws from the global numbers
    sound, training, near, far = (CausalAttention(3, 2, 6, dropout=0.0) for _ in range(4))
    centred = CentredAttention(3, 2, 6, dropout=0.0)
    training.dropout = Dropout(0.5, torch.Generator().manual_seed(0))
    near.mask[2, 3], far.mask[1, 4] = False, False
    layers = zip((sound, training, near, far, centred, sound), (6, 6, 6, 6, 4, 1), strict=True)
    return [(layer, torch.randn(1, num_tokens, 3, generator=generator)) for layer, num_tokens in layers]


find_leaks = Exercise(
    name="find_leaks",
    imports="from attention_helpers import influence",
    title="Does it leak?",
    prompt="Say whether a layer leaks: return True if some row of `layer(x)` moves by more than 1e-5 when a "
    "later token is poked (moved by 1, say), else False. x: (1, num_tokens, d_in); leave it as it is. Judge "
    "by what comes out. In training mode dropout draws anew at every call; `layer.eval()` ends that.",
    solution=leaks,
    cases=sound_and_leaky_layers,
    mistakes=[
        (
            "looks at the past",
            "triu(diagonal=1)",
            "tril(diagonal=-1)",
            "You ask whether a token moves the rows after it. It should. A leak moves a row before it.",
        ),
        (
            "counts the token's own row",
            "diagonal=1",
            "",
            "You call every layer leaky. A poked token's own row may move: look at the rows before it.",
        ),
        (
            "looks at the weights",
            "influence(layer, x).perturbation",
            "layer.steps(x).weights",
            "One layer here has causal weights and leaks after them. Judge by `layer(x)` instead.",
        ),
        "pokes the last token alone",
        "takes dropout for a leak",
    ],
    hints=[
        "Which entries of an `influence` table show that a later token moves an earlier row?",
        "`influence` works in eval mode. Row i, column j of its `.perturbation` tells how far token j moves row i.",
        "`influence(layer, x).perturbation.triu(diagonal=1)` holds what should be 0. Compare its maximum with 1e-5.",
    ],
    why="A leak is a row i that moves with a later token j: an entry above the diagonal. `influence` pokes "
    "each token in eval mode and looks at the output, not the weights. The bound leaves room for rounding.",
    moral="It works for any layer with a row a token, whatever goes on inside.",
)


def moved_before(layer, x, j):
    """How far the rows before token j move when it is poked."""
    poked = x.clone()
    poked[0, j] += 1.0
    return (layer(poked) - layer(x))[0, :j].abs().sum().item()


@find_leaks.mistake
def pokes_the_last_token_alone(layer, x):
    """Two masks here have one hole each: one token moves one earlier row. Poke every token in turn, and look at
    every row before it."""
    return moved_before(layer.eval(), x, x.shape[1] - 1) > 1e-5


@find_leaks.mistake
def takes_dropout_for_a_leak(layer, x):
    """In training mode two calls differ though nothing is poked: you take dropout for a leak."""
    return any(moved_before(layer, x, j) > 1e-5 for j in range(1, x.shape[1]))


EXERCISES = [mask_of_the_future, weights_under_a_mask, mend_the_leak, window_mask, find_leaks]
progress = Progress(EXERCISES)
