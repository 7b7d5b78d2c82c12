"""Exercises of notebook 03: hide the future, and find out whether it is hidden."""

import inspect

import torch
from torch import nn

from ..dropout import Dropout
from ..layers import CausalAttention
from ..probes import influence
from ..sentences import load_sentence
from .base import Exercise, Progress


def causal_mask(num_tokens):
    """Boolean mask (num_tokens, num_tokens), True where the key comes after the query."""
    return torch.ones(num_tokens, num_tokens).triu(diagonal=1).bool()


mask_of_the_future = Exercise(
    name="mask_of_the_future",
    title="A causal mask",
    prompt="Make the causal mask for `num_tokens` tokens: a boolean matrix with a row for each query and a column "
    "for each key. True means hide, as in this notebook. A token can see itself and the tokens before it, but no "
    "others.",
    solution=causal_mask,
    cases=lambda g: [(n,) for n in (6, 1, 2, 5)],
    mistakes={
        ("hides the diagonal", "diagonal=1", ""): """
            You hide the diagonal too, so no token sees itself. What's left for the first token to see?""",
        ("shows the next token", "diagonal=1", "diagonal=2"): """
            One token of the future is still visible. Row i sees column i + 1, which is the token that it should
            predict. Where does the future begin?""",
        ("hides the past", "triu(diagonal=1)", "tril(diagonal=-1)"): """
            You hide the past and show the future. On which side of the diagonal are the columns j > i?""",
        ("lets True mean keep", "triu(diagonal=1)", "tril()"): """
            Your True means keep, as in torch's `scaled_dot_product_attention`. What does it mean here?""",
        ("is always (6, 6)", "torch.ones(num_tokens, num_tokens)", "torch.ones(6, 6)"): """
            Your mask is right for six tokens, and for any other number it's still (6, 6). Is a 6 written in your
            code?""",
    },
    hints=[
        "Write down the matrix for three tokens. Which of its nine entries are True? Is the diagonal among them?",
        "`triu` keeps the upper triangle of a matrix, and its argument `diagonal` says where the triangle begins.",
        "Start from a matrix of ones, then use `.triu(diagonal=1)` and `.bool()`.",
    ],
    why="The future of query i is the keys j > i, which are above the diagonal. `triu(diagonal=1)` leaves the diagonal "
    "itself out, so every token sees itself. That's why no row is hidden completely, and no row of weights is NaN.",
    moral="Every token sees at least itself, so no row of weights is NaN.",
)


def masked_weights(scores, mask):
    """Weights of scores (..., n, m), row by row; mask (n, m) is True where a score is hidden."""
    return torch.softmax(scores.masked_fill(mask, -torch.inf), dim=-1)


def lookup_scores():
    """Scaled scores of the lookup, (2, 4, 4): the question before its pair, and after it."""
    x = load_sentence("lookup").embeddings  # entries: A B C 1 2 3 ?
    both = torch.stack((x[[0, 3, 1, 2]], x))  # (2, 4, 7)
    keys = 10 * (both[..., :3] - both[..., 6:])  # a question isn't found
    return both[..., :3] @ keys.transpose(1, 2) / 3**0.5


def scores_and_masks(generator):
    """The lookup; extreme scores; a batch; float16; one token; a mask that isn't causal."""
    one, batch, wide = (torch.randn(*shape, generator=generator) for shape in ((6, 6), (2, 4, 4), (3, 5)))
    one[0, 3] = 1000.0  # hidden
    one[4] -= 500.0  # far below 0, the visible ones too
    holes = torch.rand(3, 5, generator=generator) < 0.5
    holes[:, 1] = False  # something is left to see in every row
    half = torch.zeros(2, 2).half()  # its weights, 1 and 1/2, are exact
    causal = lookup_scores(), one, batch, half, torch.ones(1, 1)
    return [(scores, causal_mask(scores.shape[-1])) for scores in causal] + [(wide, holes)]


weights_under_a_mask = Exercise(
    name="weights_under_a_mask",
    title="Place the mask",
    prompt="Turn scaled scores, (n, m) or a batch (b, n, m), into weights. The mask (n, m) is True where a score is "
    "hidden, and leaves something to see in every row. One of the inputs is the lookup, where a question before its "
    "pair has to guess (0.5 and 0.5), and one after it finds it (0.991). Scores are between -1000 and 1000. If they're "
    "float16, the weights should be float16 too. Don't change the caller's scores.",
    solution=masked_weights,
    cases=scores_and_masks,
    rows_sum_to_one=True,
    mistakes={
        ("fills with 0", "-torch.inf", "0.0"): """
            You fill in 0, but softmax gives a score of 0 a share too, because $e^0 = 1$. Which score gets nothing?""",
        ("masks after softmax", ".masked_fill(mask, -torch.inf), dim=-1)", ", dim=-1).masked_fill(mask, 0.0)"): """
            You mask after softmax, when the hidden tokens have already taken their part of the row. What do your rows
            sum to?""",
        "masks after softmax and divides": ...,
        ("throws the masked copy away", "scores.masked_fill(mask, -torch.inf)", "scores"): """
            Nothing is hidden, so the early question reads its answer from the future. `masked_fill` returns a masked
            copy. Does softmax get that copy?""",
        ("counts the dimensions from the left", "dim=-1", "dim=1"): """
            That's right for one sentence, but in a batch (b, n, m) dimension 1 is the queries. How do you name the last
            dimension in both?""",
        ("fills with -1e9", "-torch.inf", "-1e9"): """
            That's right in float32, but float16 ends at -65504. Which value is below all numbers, in any dtype?""",
    },
    hints=[
        "Which comes first, the mask or softmax? Change the scores so that softmax gives the hidden ones nothing.",
        "$e^{-\\infty} = 0$. `masked_fill(mask, value)` returns a copy, and applies the mask to each sentence of a "
        "batch.",
        "Return `torch.softmax(..., dim=-1)` of `scores.masked_fill(mask, -torch.inf)`.",
    ],
    why="A score of minus infinity gets the weight 0, and softmax divides the whole 1 among the others, no matter how "
    "large the hidden score was. `masked_fill` fills a copy, and float16 has minus infinity too.",
    moral="The early question guesses, and the late one finds its pair. It works for any mask that leaves something to "
    "see in every row.",
)


@weights_under_a_mask.mistake
def masks_after_softmax_and_divides(scores, mask):
    """That's right on paper. But next to a hidden score of 1000, softmax leaves 0 for all others, and 0/0 is NaN. What
    if softmax never sees the hidden scores?"""
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
    imports="from torch import nn\nfrom attention_helpers import influence, trace",
    title="Find and fix the leak",
    prompt="This layer should be causal, but it leaks, and not because a result is thrown away. Fix the one line "
    "that's wrong, and keep the rest. To hunt for it, run the cell. Then, in a new cell, write `layer, x = "
    "MaskedAttention(3, 2, 6), torch.randn(1, 6, 3)`, and look at `influence(layer, x).perturbation`.",
    solution=MaskedAttention,
    stub=inspect.getsource(MaskedAttention).replace("triu(1)", "triu(2)"),
    call=run_layer,
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
        "masks after softmax": ...,
        ("loses the scaling", "scaled.masked_fill", "scores.masked_fill"): """
            The leak is fixed, but the scaling is lost. Which scores do you mask, those before the division by
            $\\sqrt{d_k}$ or those after it?""",
    },
    hints=[
        "`trace` finds no unused result this time. Which cells above the diagonal of `influence` aren't 0?",
        "Each row moves with the very next token, and with none after that. Which line decides what a row can see?",
        "The mask should begin one diagonal earlier: write `triu(1)`.",
    ],
    why="With `triu(2)` the mask begins one diagonal too late, so each token can see the next one, which is just the "
    "token that a language model should predict. With `triu(1)`, `influence` is 0 everywhere above the diagonal.",
    moral="Look at `influence` again: now all cells above the diagonal are 0. It was a small leak, but it would have "
    "shown a model every answer.",
)


@mend_the_leak.mistake
class MasksAfterSoftmax(MaskedAttention):
    """The future is hidden, but the rows of your weights no longer sum to 1. Did you mask before softmax, or after?"""

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
        ("forgets the future", "ones.triu(diagonal=1) | ", ""): """
            You hide what's too far back, but the future is open. Should a token see it?""",
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
    why="Key j is hidden from query i if j > i or j <= i - window. The first is the triangle above the diagonal, the "
    "second a triangle that begins `window` below it. The band between them, j from i - window + 1 to i, is `window` "
    "keys wide.",
    moral="With a window of num_tokens or more you get the causal mask again.",
)


def leaks(layer, x):
    """True if moving a token of x (1, num_tokens, d_in) moves a row of layer(x) before it."""
    return influence(layer, x).perturbation.triu(diagonal=1).max().item() > 1e-5


class CentredAttention(CausalAttention):
    """Its weights are causal, its output is not: the mean is taken over all tokens."""

    def forward(self, x):
        return super().forward(x) - super().forward(x).mean(dim=1, keepdim=True)


def sound_and_leaky_layers(generator):
    """A causal layer, one in training mode, two with a hole for one token, one that leaks after its weights."""
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
    prompt="Does a layer leak? Return True if some row of `layer(x)` moves by more than 1e-5 when a later token is "
    "perturbed (moved by 1, for example), else False. x: (1, num_tokens, d_in), which you shouldn't change. Judge the "
    "layer by its output. In training mode a layer can be random (by dropout, in notebook 04); `layer.eval()` stops "
    "that.",
    solution=leaks,
    cases=sound_and_leaky_layers,
    mistakes={
        ("looks at the past", "triu(diagonal=1)", "tril(diagonal=-1)"): """
            You check whether a token moves the rows after it, and it should. Which rows does a leak move?""",
        ("counts the token's own row", "diagonal=1", ""): """
            You call every layer leaky, because you count the row of the perturbed token itself. Can that row move in a
            causal layer?""",
        ("looks at the weights", "influence(layer, x).perturbation", "layer.steps(x).weights"): """
            You look at the weights, but one layer here has causal weights and leaks after them. What does `layer(x)`
            tell you?""",
        "perturbs only the last token": ...,
        "takes dropout for a leak": ...,
    },
    hints=[
        "Which entries of an influence map show that a later token moves an earlier row?",
        "`influence` works in eval mode. Row i, column j of its `.perturbation` says how far token j moves row i.",
        "`influence(layer, x).perturbation.triu(diagonal=1)` holds what should be 0. Compare its maximum with 1e-5.",
    ],
    why="In a leak, row i moves with a later token j, which is an entry above the diagonal. `influence` perturbs each "
    "token in eval mode and looks at the output, not at the weights. The bound of 1e-5 leaves room for rounding.",
    moral="It works for any layer with one row per token, no matter what happens inside.",
)


def moved_before(layer, x, j):
    """How far the rows before token j move when it's perturbed."""
    perturbed = x.clone()
    perturbed[0, j] += 1.0
    return (layer(perturbed) - layer(x))[0, :j].abs().sum().item()


@find_leaks.mistake
def perturbs_only_the_last_token(layer, x):
    """You perturb only the last token. But two masks here have one hole each, through which one token moves one earlier
    row. Which tokens could that be?"""
    return moved_before(layer.eval(), x, x.shape[1] - 1) > 1e-5


@find_leaks.mistake
def takes_dropout_for_a_leak(layer, x):
    """You take dropout for a leak. In training mode two calls differ although nothing was perturbed. In which mode
    don't they?"""
    return any(moved_before(layer, x, j) > 1e-5 for j in range(1, x.shape[1]))


EXERCISES = [mask_of_the_future, weights_under_a_mask, mend_the_leak, window_mask, find_leaks]
progress = Progress(EXERCISES)
