"""Exercises of notebook 03: hide the future, and find out whether it is hidden."""
# After a change: make exercises, then make refresh NOTEBOOK="03 help"

import torch

from attention_helpers.sentences import load_sentence

from .base import Exercise, Progress


def causal_weights(scores):
    """From scaled scores to weights, both (num_tokens, num_tokens)."""
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
    prompt="Turn scaled scores into weights, so that each token sees only itself and the tokens before it, even if a "
    "score is 1000 or -1000. Leave `scores` as it is.",
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
    why="The keys j > i, above the diagonal, are the future of query i, and softmax divides a total weight of 1 "
    "among the scores that are left, no matter how large a hidden one was.",
    moral="The early question guesses, and the late one finds its pair.",
)


def leaks(f, x):
    """True if changing a token of x (num_tokens, d_in) moves an earlier row."""
    for j in range(len(x)):
        changed = x.clone()
        changed[j] += torch.randn(x.shape[1])
        moved = (f(changed) - f(x)).abs()  # (num_tokens, d_out)
        if (moved[:j] > 1e-5).any():
            return True
    return False


def attention(*holes, start_centred=False, end_centred=False):
    """A causal function of x (num_tokens, d_in), but for holes (i, j) in its mask, and for a mean over all tokens."""
    future = torch.ones(6, 6).triu(diagonal=1).bool()
    for hole in holes:
        future[hole] = False

    def f(x):
        if start_centred:
            x = x - x.mean(dim=-1, keepdim=True)  # as in LayerNorm
        scores = (x @ x.T).masked_fill(future[: len(x), : len(x)], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ x  # (num_tokens, d_in)
        return context - context.mean(dim=0) if end_centred else context

    return f


def one_entry(f, sign):
    """The first entry of each row of f(x) times a sign: a leak makes it larger for one sign, smaller for the other."""
    return lambda x: sign * f(x)[:, :1]


def rounds(x):
    """x itself, but for rounding, which depends on all tokens."""
    return (x + 10 * x.mean(dim=0)) - 10 * x.mean(dim=0)


def sound_and_leaky_functions(generator):
    """Causal functions, one for a single token and one that rounds; some with a hole, and one that leaks at its end."""
    holes = (attention((2, 3)), 6), (attention((1, 4)), 6), (attention((1, 4), start_centred=True), 6)
    up_and_down = [(one_entry(attention((1, 4)), sign), 6) for sign in (1, -1)]
    functions = (attention(), 6), *holes, (attention(end_centred=True), 4), (attention(), 1), (rounds, 5), *up_and_down
    return [(f, torch.randn(n, 3, generator=generator)) for f, n in functions]


find_leaks = Exercise(
    name="find_leaks",
    title="Does it leak?",
    prompt="Perturb each token of x in turn, by random numbers. Return True if an earlier row of `f(x)` changes by "
    "more than 1e-5, else False. Leave `x` as it is.",
    solution=leaks,
    cases=sound_and_leaky_functions,
    mistakes={
        ("looks at the past", "moved[:j]", "moved[j + 1 :]"): """
            You check whether a token moves the rows after it, and it should. Which rows does a leak move?""",
        ("counts the token's own row", "moved[:j]", "moved[: j + 1]"): """
            You call every function leaky, because you count the row of the perturbed token itself. Can that row move in
            a causal layer?""",
        ("forgets that changes can be negative", ".abs()", ""): """
            You miss a leak that makes an earlier row smaller, because that change is negative. How large is a change,
            up or down?""",
        ("says the opposite", lambda f, x: not leaks(f, x)): """
            Your answers are all the wrong way round. Is it a large or a small number there that shows a leak?""",
        ("perturbs only the last token", "range(len(x))", "[len(x) - 1]"): """
            You perturb only the last token. But some masks here have one hole each, through which one token moves one
            earlier row. Which tokens could that be?""",
        ("changes x itself", "x.clone()", "x"): """
            You change x itself, so `f(x)` is computed from the changed tokens, too. What does `x.clone()` return?""",
        ("stops after the first token", "\n    return False", "\n        return False"): """
            You never find a leak, because you return after the first token, which has no earlier rows. When do you
            know that none of the tokens moves an earlier row?""",
        ("adds the same to each entry", "torch.randn(x.shape[1])", "1.0"): """
            You add the same number to each entry of a token. But one function here subtracts each token's mean first,
            as LayerNorm does, so it doesn't notice. Which change would it notice?""",
    },
    hints=[
        "For each token, compare two outputs: `f(x)`, and `f` of a copy of x in which that token is changed. Token 0 "
        "has no earlier rows.",
        "`x.clone()` is a copy, and `changed[j] += torch.randn(x.shape[1])` perturbs its token j. Which rows of the "
        "output shouldn't move?",
        "`(f(changed) - f(x))[:j]` are the changes of the rows before token j. Is one of them larger than 1e-5, up or "
        "down? Return False only after the loop.",
    ],
    why="In a leak, an earlier row moves with a later token, wherever that happens in the layer. Random numbers are a "
    "better perturbation than adding 1 to each entry, because a layer that subtracts a token's mean wouldn't notice "
    "that.",
    moral="It works for any function with one row per token.",
)


def sliding_window_mask(num_tokens, window):
    """(num_tokens, num_tokens): True in the future or outside the window."""
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
    "than num_tokens. (`tril(diagonal=-2)` keeps what is two or more below the diagonal, and `a | b` is True where one "
    "of two masks is.)",
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


EXERCISES = [hide_the_future, find_leaks, window_mask]
progress = Progress(EXERCISES)
