"""Exercises of notebook 03: hide the future, and find out whether it is hidden."""

import torch

from attention_helpers.sentences import load_sentence

from .base import Exercise, Progress, Seen, exercises_in, verdict_of


def causal_weights(scores):
    """From scaled scores to weights, both (num_tokens, num_tokens)."""
    future = torch.ones_like(scores).triu(diagonal=1).bool()
    scores = scores.masked_fill(future, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights


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


hide_the_future = Exercise(
    title="Hide the future",
    prompt="Turn scaled scores into weights, so that each token sees only itself and the tokens before it, even if a "
    "score is 1000 or -1000. Leave `scores` as it is.",
    solution=causal_weights,
    cases=scaled_scores,
    mistakes={
        ("diagonal=1", ""): "You hide the diagonal too, so no token sees itself. What's left for the first one?",
        ("torch.ones_like(scores)", "scores"): "Your mask is made of the scores, so a score of 0 isn't hidden. Of what "
        "should the mask be made instead?",
        ("torch.softmax(scores,", "torch.softmax(scores / scores.shape[-1] ** 0.5,"): "You divide the scores once "
        "more, but they came scaled. What's left to do with them?",
        ("scores.masked_fill(", "torch.softmax(scores, dim=-1).masked_fill("): "You take the softmax of weights, which "
        "makes them nearly alike. How often should softmax be applied?",
        ("-torch.inf", "-100.0"): "-100 is a score like any other, and one row here has only -1000. Which value is "
        "below every score?",
    },
    heading="03#How-do-we-hide-the-future-from-softmax?",
    hints={
        "future": "Which of three tokens' nine scores should be hidden? `triu(diagonal=1)` leaves the diagonal out, "
        "and `.bool()` turns ones into True.",
        "scores": "`scores.masked_fill(future, -torch.inf)` is a masked copy. Does the mask come before softmax or "
        "after it?",
        "result": "Take the softmax of the masked scores with `dim=-1`.",
    },
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


def changes_at_its_end(x, f):
    """f, whose row 1 also moves by 3e-5 if the last entry of the last token isn't as it is in x."""

    def tells(other):
        result = f(other)
        result[1] += 3e-5 * (other[-1, -1] != x[-1, -1])
        return result

    return tells


def sound_and_leaky_functions(generator):
    """Causal functions, one for a single token and one that rounds; some with a hole, and one that leaks at its end."""
    holes = (attention((2, 3)), 6), (attention((1, 4)), 6), (attention((1, 4), start_centred=True), 6)
    up_and_down = [(one_entry(attention((1, 4)), sign), 6) for sign in (1, -1)]
    functions = (attention(), 6), *holes, (attention(end_centred=True), 4), (attention(), 1), (rounds, 5), *up_and_down
    cases = [(f, torch.randn(n, 3, generator=generator)) for f, n in functions]
    x = torch.randn(5, 3, generator=generator)
    return [*cases, (changes_at_its_end(x.clone(), attention()), x)]


def watched(answer, f, x):
    """What an answer says of f, and if that's wrong, what it did to find out."""
    before = x.clone()
    said, calls = verdict_of(answer, f, x)
    if not isinstance(said, bool) or said == leaks(f, before):
        return said
    why, about = explain(said, f, before, calls)
    return Seen(said, f"Your answer is {said}. {why}", about)


def explain(said, f, x, calls):
    """Why an answer is wrong, by the calls of f that it made, and the hint for it. x: what it got."""
    changes = [call - x for call in calls if call.shape == x.shape]
    tried = {int(change.any(dim=1).nonzero()[0]): change for change in changes if change.any()}  # by the first token
    if not tried:
        return f"Your code never calls `f`{' with a changed copy of x' if calls else ''}.", "calls"
    if said:
        return "But no row before a changed token moves by more than 1e-5. (Its own row and later ones may.)", "moves"
    for token in range(1, len(x)):
        change = torch.zeros_like(x)
        change[token] = torch.randn(x.shape[1])
        if not (f(x + change) - f(x))[:token].abs().max() > 1e-5:
            continue
        if token not in tried:
            return f"Your code never changes token {token}, which moves an earlier row.", "calls"
        moves = (f(x + tried[token]) - f(x))[:token].flatten()
        if abs(largest := moves[moves.abs().argmax()].item()) > 1e-5:
            return f"But when you change token {token}, an earlier row of `f(x)` moves by {largest:.2g}.", "moves"
        added = ", ".join(f"{number:.2g}" for number in tried[token][token])
        return f"You add {added} to token {token}. This `f` doesn't notice that, but it notices others.", "changes"
    return "", ""


find_leaks = Exercise(
    title="Does it leak?",
    prompt="Perturb each token of x in turn, by random numbers. Return True if an earlier row of `f(x)` changes by "
    "more than 1e-5, else False. Leave `x` as it is.",
    solution=leaks,
    cases=sound_and_leaky_functions,
    call=watched,
    mistakes={
        ("moved[:j]", "moved[j + 1 :]"): "",
        ("moved[:j]", "moved[: j + 1]"): "",
        (".abs()", ""): "",
        ("range(len(x))", "[len(x) - 1]"): "",
        ("\n    return False", "\n        return False"): "",
        ("torch.randn(x.shape[1])", "1.0"): "",
        ("changed[j] +=", "changed[j] + "): "",
        ("f(changed) - f(x)", "changed - x"): "",
    },
    heading="03#How-can-you-tell-that-a-layer-is-causal?",
    hints={
        "calls": "For each token, compare two outputs: `f(x)`, and `f` of a copy of x in which that token is changed. "
        "Token 0 has no earlier rows.",
        "changes": "`x.clone()` is a copy, and `changed[j] += torch.randn(x.shape[1])` perturbs its token j.",
        "moves": "`(f(changed) - f(x))[:j]` are the changes of the rows before token j. Is one of them larger than "
        "1e-5, up or down? Return False only after the loop.",
    },
    why="In a leak, an earlier row moves with a later token, wherever that happens in the layer. Random numbers are a "
    "better perturbation than adding 1 to each entry, because a layer that subtracts a token's mean wouldn't notice "
    "that.",
    moral="It works for any function with one row per token.",
)


def sliding_window_mask(num_tokens, window):
    """(num_tokens, num_tokens): True in the future or outside the window."""
    ones = torch.ones(num_tokens, num_tokens).bool()
    future = ones.triu(diagonal=1)
    too_far = ones.tril(diagonal=-window)
    return future | too_far


window_mask = Exercise(
    title="A sliding window",
    prompt="In a long text, a token doesn't have to see everything before it. Make a mask in which each token sees "
    "only itself and the `window - 1` tokens before it. True means hide. `window` is at least 1, and can be larger "
    "than num_tokens. (`tril(diagonal=-2)` keeps what is two or more below the diagonal, and `a | b` is True where one "
    "of two masks is.)",
    solution=sliding_window_mask,
    cases=lambda g: [(6, 3), (6, 1), (5, 2), (4, 4), (4, 9), (1, 1)],
    mistakes={
        ("-window", "-window - 1"): "Your tokens see one too many. With a window of 1, which should a token see?",
        ("-window", "1 - window"): "Your tokens see one too few. With a window of 1, does a token see itself?",
        ("future | too_far", "~(future | too_far)"): "Your mask is upside down: it's True in the window, and False "
        "outside. What does True mean here?",
        ("future | ", ""): "You hide what's too far back, but the future is open. Should a token see it?",
        (" | too_far", ""): "That's the causal mask, in which a token sees its whole past. What about tokens too far "
        "back?",
        ("future | too_far", "future.mT | too_far.mT"): "Your mask is transposed: it hides the past, and what's too "
        "far ahead. Which of i and j is the query?",
        ("ones.triu(diagonal=1)", "ones.triu(diagonal=window)"): "Your window is open on both sides, so tokens see "
        "later ones. Which of them should be hidden?",
    },
    heading="03#How-do-we-hide-the-future-from-softmax?",
    hints={
        "future": "Two things are hidden, the future and what's too far back. Can you make a mask for each?",
        "too_far": "With a window of 3, token 5 sees tokens 3, 4 and 5. `tril(diagonal=-window)` keeps what's `window` "
        "or more below the diagonal.",
        "result": "`|` joins two masks.",
    },
    why="Key j is hidden from query i if j > i, which is the triangle above the diagonal, or if j <= i - window, "
    "which is the triangle that begins `window` below it.",
    moral="With a window of num_tokens or more you get the causal mask again.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
