"""Exercises of notebook 02: keys by hand, scaled weights, and a step of training."""
# After a change: make exercises, then make refresh NOTEBOOK="02 help"

import torch

from .base import Exercise, Progress, normal


def key_matrix(num_letters, num_digits, strength):
    """W_key (num_letters + num_digits + 1, num_letters)."""
    W_key = torch.zeros(num_letters + num_digits + 1, num_letters)
    W_key[:num_letters] = strength * torch.eye(num_letters)
    W_key[-1] = -strength
    return W_key


keys_by_hand = Exercise(
    name="keys_by_hand",
    title="Write W_key by hand",
    prompt="Write `W_key` for any number of letters and digits. Its rows are the letters, the digits and `?`, and "
    "its columns are the letters. A letter's row has `strength` in the letter's own column, the row of `?` has "
    "`-strength` in all columns, and all other entries are 0.",
    solution=key_matrix,
    cases=lambda g: [(3, 3, 10.0), (2, 5, 4.0), (5, 2, 7.5), (1, 4, 3.0)],
    mistakes={
        ("has no row for ?", "    W_key[-1] = -strength\n", ""): """
            Your row for `?` is 0, so the key of `B ?` is the key of `B 1`. Which two tokens does `B ?` read then?""",
        ("doesn't scale the letters", "strength * torch.eye(num_letters)", "torch.eye(num_letters)"): """
            A match stands out by 1 only, so softmax leaves the answer blurred. Where does `strength` come in?""",
        ("subtracts only 1 for ?", "-strength", "-1"): """
            You subtract 1 for `?`, but the question's letter adds `strength` to its key. What's left of it?""",
        ("transposes the matrix", "return W_key", "return W_key.T"): """
            Your matrix is transposed. In `x @ W_key`, which of its dimensions has to be as long as an embedding?""",
        ("fixes the sizes of the notebook", "    W_key =", "    num_letters = num_digits = 3\n    W_key ="): """
            Right for three letters and three digits. Is a 3, a 6 or a 7 written in your code?""",
    },
    hints=[
        "Each row is what one symbol adds to a key. Which rows stay 0, and which row makes up for a letter?",
        "Start with `torch.zeros(rows, num_letters)`. The letters' rows are a multiple of `torch.eye(num_letters)`, "
        "and `?` is the last row.",
        "`W_key[:num_letters] = strength * torch.eye(num_letters)`, then `W_key[-1] = -strength`.",
    ],
    why="A pair's key is `strength` at its letter, while a question's key is 0 there and negative elsewhere, so no "
    "query prefers it.",
    moral="With a strength of 10, `B ?` will give 0.9908 of its weight to its pair.",
)


def scaled_weights(queries, keys):
    """Weights (n, n) of the queries and keys (n, d_k) of n tokens."""
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1)


weights_that_are_scaled = Exercise(
    name="weights_that_are_scaled",
    title="Weights from queries and keys",
    prompt="Compute what's in front of $V$, for any number of tokens and any width of keys, `keys.shape[-1]`.",
    solution=scaled_weights,
    cases=lambda g: [normal(g, size, size) for size in ((6, 2), (4, 7), (1, 3), (5, 1), (3, 16))],
    mistakes={
        ("forgets the root", " ** 0.5", ""): """
            You divide by d_k itself. Which number does the formula divide by?""",
        ("doesn't scale", " / keys.shape[-1] ** 0.5", ""): """
            These are the weights of plain dot products, as in notebook 01. What does the formula do to them before
            softmax?""",
        ("multiplies by the root", "** 0.5", "** -0.5"): """
            You multiply by the root of d_k (dividing by `** -0.5` does that, too). Should scores become larger or
            smaller?""",
        ("scales by the number of tokens", "keys.shape[-1]", "keys.shape[0]"): """
            You divide by the root of the number of tokens. Which dimension is a key's width?""",
        ("fixes the width of the notebook", "keys.shape[-1]", "3"): """
            Right for keys of width 3, as in the notebook. Is a 3 written in your code?""",
        ("swaps queries and keys", "queries @ keys.T", "keys @ queries.T"): """
            Your rows belong to keys, because your score matrix is transposed. Which of the two comes first in the
            product?""",
        ("takes the softmax over the queries", "dim=-1", "dim=0"): """
            Your columns sum to 1, not your rows. Which dimension counts the keys?""",
    },
    hints=[
        "Multiply all queries with all keys, divide, and take the softmax.",
        "`keys.T` turns (n, d_k) into (d_k, n), and `** 0.5` is a root.",
        "First `scores = queries @ keys.T / keys.shape[-1] ** 0.5`, then softmax with `dim=-1`.",
    ],
    why="Each row has one query's scores, so softmax works along the last dimension.",
    moral="Every layer in this course makes its weights this way.",
)


def one_step(W, loss_of, rate):
    """W after one gradient step; loss_of(W) is the loss of a matrix."""
    W = W.clone().requires_grad_()
    loss_of(W).backward()  # fills W.grad
    return W.detach() - rate * W.grad


def steps_to_take(generator):
    for shape, rate in (((7, 3), 5.0), ((2, 4), 0.5), ((3, 1), 1.0)):
        W, x = normal(generator, shape, shape[::-1])
        yield W, lambda W, x=x: torch.softmax(x @ W, dim=-1).square().sum() + (W**3).sum(), rate


def called_twice(answer, W, loss_of, rate):
    """What two equal calls return, and whether PyTorch records it; if so, one call is enough."""
    first = answer(W, loss_of, rate)
    tracked = getattr(first, "requires_grad", False)
    again = first if tracked else answer(W, loss_of, rate)
    return {"matrix": first, "matrix in a second, equal call": again, "requires_grad": str(tracked)}


step_by_hand = Exercise(
    name="step_by_hand",
    title="One step of training",
    prompt="Write one such step. Compute with a copy, `W.clone()`, so that `W` stays as it is, and return the new "
    "matrix, without a record of how it was computed.",
    solution=one_step,
    cases=steps_to_take,
    call=called_twice,
    mistakes={
        ("climbs the slope", "- rate", "+ rate"): """
            You step up the slope, because the gradient says in which direction the loss grows. Where should training
            go?""",
        ("returns a tracked matrix", "W.detach()", "W"): """
            The numbers are right, but PyTorch still records what you compute with them: print the result, and you'll
            see its `grad_fn`. How do you stop that?""",
        ("marks the caller's matrix", "W.clone()", "W"): """
            Right once. But you marked the caller's own matrix, so the next call adds to its gradient. Which matrix
            could you mark instead?""",
        ("takes the loss for its gradient", "rate * W.grad", "rate * loss_of(W.detach())"): """
            You subtract the loss, one number from all entries. What says in which direction each entry should go?""",
        ("forgets the rate", "rate * W.grad", "W.grad"): """
            Your step is as long as the gradient, whatever the rate. How far should it go?""",
    },
    hints=[
        "Compute the loss of a copy of `W`, and call `backward` on the loss.",
        "PyTorch records what's computed from `copy = W.clone().requires_grad_()`, and `backward` fills `copy.grad`.",
        "Return `W - rate * copy.grad`.",
    ],
    why="The gradient points to where the loss grows, so we subtract it, and because a new copy has no `.grad` yet, "
    "equal calls agree.",
    moral="This is gradient descent. Training consists of many such steps, for all matrices.",
)


EXERCISES = [keys_by_hand, weights_that_are_scaled, step_by_hand]
progress = Progress(EXERCISES)
