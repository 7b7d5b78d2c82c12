"""Exercises of notebook 02: keys by hand, scaled weights, and a step of training."""

import torch

from .base import Exercise, Progress, Seen, exercises_in, normal


def key_matrix(num_letters, num_digits, strength):
    """W_key (num_letters + num_digits + 1, num_letters)."""
    W_key = torch.zeros(num_letters + num_digits + 1, num_letters)
    W_key[:num_letters] = strength * torch.eye(num_letters)
    W_key[-1] = -strength
    return W_key


def rows_of(answer, num_letters, num_digits, strength):
    """The matrix, cut into its letters, digits and question."""
    W_key = answer(num_letters, num_digits, strength)
    sizes = [num_letters, num_digits, 1]
    if torch.is_tensor(W_key) and W_key.shape[:1] != (sum(sizes),):
        return Seen(W_key, f"W_key should have {sum(sizes)} rows, and has the shape {tuple(W_key.shape)}.", "rows")
    if not torch.is_tensor(W_key):
        return W_key
    return dict(zip(("letters", "digits", "?"), W_key.split(sizes), strict=True))


keys_by_hand = Exercise(
    title="Write W_key by hand",
    prompt="Write `W_key` for any number of letters and digits. Its rows are the letters, the digits and `?`, and "
    "its columns are the letters. A letter's row has `strength` in the letter's own column, the row of `?` has "
    "`-strength` in all columns, and all other entries are 0.",
    solution=key_matrix,
    cases=lambda g: [(3, 3, 10.0), (2, 5, 4.0), (5, 2, 7.5), (1, 4, 3.0)],
    call=rows_of,
    mistakes={
        ("    W_key[-1] = -strength\n", ""): "",
        ("strength * torch.eye(num_letters)", "torch.eye(num_letters)"): "A match stands out by 1 only, so softmax "
        "leaves the answer blurred. Where does `strength` come in?",
        ("-strength", "-1"): "",
        ("return W_key", "return W_key.T"): "Your matrix is transposed. In `x @ W_key`, which dimension is as long as "
        "an embedding?",
        ("W_key[-1]", "W_key[num_letters:]"): "Your digits' rows are like `?`'s. What should a digit add to a key?",
        (" * torch.eye(num_letters)", ""): "Each letter adds `strength` to all entries. To which one should it add?",
        ("num_digits + 1", "num_digits"): "Your matrix has a row per letter and digit. Which symbol's row is missing?",
        ("    W_key =", "    num_letters = num_digits = 3\n    W_key ="): "Right for three letters and three digits. "
        "Is a 3, a 6 or a 7 written in your code?",
    },
    heading="02#What-makes-a-good-key?",
    hints={
        "letters": "A letter's row has `strength` at its own entry, and 0 elsewhere. `torch.eye(num_letters)` has a 1 "
        "in each such place.",
        "digits": "A digit adds nothing to a key. So what should its row be?",
        "rows": "There's a row for each letter, for each digit, and for `?`.",
        "?": "`?` is the last row, `W_key[-1]`. It subtracts `strength` from each entry.",
    },
    why="A pair's key is `strength` at its letter, while a question's key is 0 there and negative elsewhere, so no "
    "query prefers it.",
    moral="With a strength of 10, `B ?` will give 0.9908 of its weight to its pair.",
)


def scaled_weights(queries, keys):
    """Weights (n, n) of the queries and keys (n, d_k) of n tokens."""
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights


weights_that_are_scaled = Exercise(
    title="Weights from queries and keys",
    prompt="Compute what's in front of $V$, for any number of tokens and any width of keys, `keys.shape[-1]`.",
    solution=scaled_weights,
    cases=lambda g: [normal(g, size, size) for size in ((6, 2), (4, 7), (1, 3), (5, 1), (3, 16))],
    mistakes={
        ("** 0.5", "** -0.5"): "You multiply by the root of d_k (as dividing by `** -0.5` does). Should scores grow?",
        ("keys.shape[-1]", "keys.shape[0]"): "You divide by the root of the number of tokens. Which dimension is the "
        "width?",
        ("keys.shape[-1]", "3"): "Right for keys of width 3, as in the notebook. Is a 3 written in your code?",
        ("** 0.5", "** 1 / 2"): "You divide by d_k and then by 2, as Python reads `** 1 / 2`. How do you write a root?",
        ("softmax(scores, dim=-1)", "softmax(queries @ keys.T, dim=-1) / keys.shape[-1] ** 0.5"): "You divide the "
        "weights, so a row no longer sums to 1. What should be divided instead, before softmax?",
    },
    heading="02#Why-divide-by-the-square-root-of-d_k?",
    hints={
        "scores": "Multiply all queries with all keys. `keys.T` turns (n, d_k) into (d_k, n), and `** 0.5` is a root.",
        "result": "Take the softmax of `queries @ keys.T / keys.shape[-1] ** 0.5` with `dim=-1`.",
    },
    why="Each row has one query's scores, so softmax works along the last dimension.",
    moral="Every layer in this course makes its weights this way.",
)


def one_step(W, loss_of, rate):
    """W after one gradient step; loss_of(W) is the loss of a matrix."""
    copy = W.clone().requires_grad_()
    loss_of(copy).backward()  # fills copy.grad
    gradient = copy.grad
    return W - rate * gradient


def steps_to_take(generator):
    for shape, rate in (((7, 3), 5.0), ((2, 4), 0.5), ((3, 1), 1.0)):
        W, x = (each.double() for each in normal(generator, shape, shape[::-1]))  # finite differences are right, too
        yield W, lambda W, x=x: torch.softmax(x @ W, dim=-1).square().sum() + (W**3).sum(), rate


def called_twice(answer, W, loss_of, rate):
    """What two equal calls return, and whether PyTorch records it; if so, one call is enough."""
    first = answer(W, loss_of, rate)
    if getattr(first, "requires_grad", False):
        return Seen(first, "PyTorch still records what's done with your result: its `requires_grad` is True.", "detach")
    return {"the first result": first, "the result of a second, equal call": answer(W, loss_of, rate)}


step_by_hand = Exercise(
    title="One step of training",
    prompt="Write one such step. Compute with a copy, `W.clone()`, so that `W` stays as it is, and return the new "
    "matrix, without a record of how it was computed.",
    solution=one_step,
    cases=steps_to_take,
    call=called_twice,
    mistakes={
        ("- rate", "+ rate"): "You step up the slope, since the gradient says where the loss grows. Where should "
        "training go?",
        ("rate * gradient", "rate * loss_of(W)"): "You subtract the loss, one number from all entries. What says in "
        "which direction each entry should go?",
        ("rate * gradient", "gradient"): "Your step is as long as the gradient. How far should it go?",
        ("rate * gradient", "rate * gradient / gradient.norm()"): "You divide the gradient by its length, so each step "
        "is equally long. By what should it be multiplied?",
    },
    heading="02#How-does-training-find-the-matrices?",
    hints={
        "gradient": "PyTorch records what's computed from `copy = W.clone().requires_grad_()`, and `backward`, called "
        "on the loss of that copy, fills `copy.grad`.",
        "result": "Return `W - rate * copy.grad`.",
        "detach": "`.detach()` returns the same numbers without that.",
    },
    why="The gradient points to where the loss grows, so we subtract it, and because a new copy has no `.grad` yet, "
    "equal calls agree.",
    moral="This is gradient descent. Training consists of many such steps, for all matrices.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
