"""Exercises of notebook 02: keys by hand, scaled scores, a step of training, and two ways to store a matrix."""

import torch
from torch import nn

from ..layers import SelfAttention_v1, SelfAttention_v2
from .base import Exercise, Progress

MATRICES = ("W_query", "W_key", "W_value")


def normal(generator, *shapes):
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def key_matrix(num_letters, num_digits, strength):
    """W_key (num_letters + num_digits + 1, num_letters); its rows are the letters, the digits, and `?`."""
    W_key = torch.zeros(num_letters + num_digits + 1, num_letters)
    W_key[:num_letters] = strength * torch.eye(num_letters)
    W_key[-1] = -strength
    return W_key


keys_by_hand = Exercise(
    name="keys_by_hand",
    title="Write W_key by hand",
    prompt="Write the `W_key` of a lookup with any number of letters and digits. An embedding's entries are the "
    "letters, then the digits, then `?`, and a key has one entry per letter. A match should stand out by `strength` "
    "(it was 10 above), digits shouldn't matter, and a question shouldn't be found, not even by itself.",
    solution=key_matrix,
    cases=lambda g: [(3, 3, 10.0), (2, 5, 4.0), (5, 2, 7.5), (1, 4, 3.0)],
    mistakes={
        ("has no row for ?", "    W_key[-1] = -strength\n", ""): """
            Your row for `?` is 0, so the key of `B ?` is the key of `B 1`. Which two tokens does `B ?` read then?""",
        ("doesn't scale the letters", "strength * torch.eye(num_letters)", "torch.eye(num_letters)"): """
            A match stands out by 1 only, so softmax leaves the answer blurred. Where does `strength` come in?""",
        ("subtracts only 1 for ?", "-strength", "-1"): """
            You subtract 1 for `?`, but the question's letter adds `strength` to its key. What's left of it?""",
        ("adds the row for ?", "-strength", "strength"): """
            Your row for `?` adds to every entry of a question's key. Is a question easier or harder to find then?""",
        ("fills the rows of the digits", "    W_key[-1]", "    W_key[num_letters:] = strength\n    W_key[-1]"): """
            Your digits change the keys. If every pair has a digit, which pairs does the question find?""",
        ("transposes the matrix", "return W_key", "return W_key.T"): """
            Your matrix is transposed. In `x @ W_key`, which of its dimensions has to be as long as an embedding?""",
        "fixes the sizes of the notebook": ...,
    },
    hints=[
        "Each row is what one symbol adds to the key of a token. Which rows stay 0, and which row makes up for a "
        "letter?",
        "Start with `torch.zeros(rows, num_letters)`. The letters' rows are a multiple of `torch.eye(num_letters)`, "
        "and `?` is the last row.",
        "`W_key[:num_letters] = strength * torch.eye(num_letters)`, then `W_key[-1] = -strength`.",
    ],
    why="The key of a pair is `strength` at its letter and 0 elsewhere. A question's key is 0 at its letter, because "
    "the row for `?` cancels it, and negative elsewhere, so no query prefers it. The rows of the digits stay 0.",
    moral="Put it into `SelfAttention_v1` with a strength of 10, and `B ?` gives 0.9908 of its weight to its pair.",
)


@keys_by_hand.mistake
def fixes_the_sizes_of_the_notebook(num_letters, num_digits, strength):
    """Right for three letters and three digits. Is a 3, a 6 or a 7 written in your code?"""
    W_key = torch.zeros(7, 3)
    W_key[:3] = strength * torch.eye(3)
    W_key[6] = -strength
    return W_key


def scaled_scores(x, W_query, W_key):
    """Scores (..., num_tokens, num_tokens) of x (..., num_tokens, d_in), divided by the root of d_k."""
    queries = x @ W_query  # (..., num_tokens, d_k)
    keys = x @ W_key  # (..., num_tokens, d_k)
    return queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5


def embeddings_and_matrices(generator):
    """One sentence or a batch; num_tokens, d_in and d_k mostly differ, so that a wrong width is noticed."""
    shapes = [((6, 3), 2), ((4, 5), 7), ((1, 3), 3), ((5, 2), 1), ((2, 6, 3), 5), ((3, 1, 2), 4)]
    return [normal(generator, x, (x[-1], d_k), (x[-1], d_k)) for x, d_k in shapes]


scores_that_are_scaled = Exercise(
    name="scores_that_are_scaled",
    title="Scaled scores",
    prompt="Make queries and keys from the embeddings `x`, then compute the scaled scores: row i holds the dot "
    "products of query i with every key, divided by the square root of d_k. `x` is one sentence, (num_tokens, d_in), "
    "or a **batch** of b sentences, (b, num_tokens, d_in).",
    solution=scaled_scores,
    cases=embeddings_and_matrices,
    mistakes={
        ("scales by d_in", "keys.shape", "x.shape"): """
            You divide by the root of d_in, the width of an embedding. How many products does one score add up?""",
        ("forgets the root", " ** 0.5", ""): """
            You divide by d_k itself, so the variance of the scores is divided by d_k squared. What would make it 1?""",
        ("doesn't scale", " / keys.shape[-1] ** 0.5", ""): """
            These are plain dot products. How large do they become when keys are wide?""",
        ("multiplies by the root", "** 0.5", "** -0.5"): """
            You multiply by the root of d_k (dividing by `** -0.5` does that, too). Should scores become larger or
            smaller?""",
        ("scales by the number of tokens", "keys.shape[-1]", "x.shape[0]"): """
            You divide by the root of the first dimension, which counts tokens or sentences. Which dimension is a key's
            width?""",
        ("swaps queries and keys", "queries @ keys.transpose", "keys @ queries.transpose"): """
            Your score matrix is transposed: its row i belongs to key i. Which of the two comes first in the
            product?""",
        # What .T does, without its warning.
        ("uses .T on a batch", "keys.transpose(-2, -1)", "keys.permute(*range(keys.ndim)[::-1])"): """
            Right for one sentence. But on a batch, `.T` reverses all three dimensions. Which two do you want to
            swap?""",
    },
    hints=[
        "There are three products: queries, keys, and queries with transposed keys. What's the shape of each?",
        "`keys.transpose(-2, -1)` works with and without a batch, and d_k is `keys.shape[-1]`.",
        "The last line is `queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5`.",
    ],
    why="A score adds up d_k products, so what counts is the width of a key. That's the last dimension, with or "
    "without a batch.",
    moral="Every layer in this course scales its scores this way.",
)


def v1_from_v2(v2):
    """A new SelfAttention_v1 with the matrices of v2, a SelfAttention_v2 without bias."""
    v1 = SelfAttention_v1(v2.d_in, v2.d_out)
    with torch.no_grad():
        v1.W_query.copy_(v2.W_query.weight.T)  # (d_out, d_in) -> (d_in, d_out)
        v1.W_key.copy_(v2.W_key.weight.T)
        v1.W_value.copy_(v2.W_value.weight.T)
    return v1


def layers_without_bias(generator):
    layers = [SelfAttention_v2(d_in, d_out) for d_in, d_out in ((3, 2), (2, 5), (4, 4), (1, 3), (3, 1))]
    for parameter in nn.ModuleList(layers).parameters():
        nn.init.normal_(parameter, generator=generator)
    return [(layer,) for layer in layers]


def moved(answer, v2):
    """What a v1 made from v2 holds and, if its numbers are right, what v2 holds when that v1 is changed."""
    torch.default_generator.manual_seed(0)  # a v1 left as it was drawn is then the same each time
    v1 = answer(v2)
    found = dict.fromkeys(("layer", *MATRICES, "list of trainable matrices", "v2 afterwards")) | {"layer": v1}
    if isinstance(v1, SelfAttention_v1):
        held = {name: getattr(v1, name).detach().clone() for name in MATRICES}
        trainable = sorted(name for name, parameter in v1.named_parameters() if parameter.requires_grad)
        if all(torch.equal(held[name], getattr(v2, name).weight.T) for name in MATRICES):
            for name in MATRICES:
                getattr(v1, name).data.add_(1)
        v2_holds = nn.utils.parameters_to_vector(v2.parameters())
        found |= held | {"list of trainable matrices": trainable, "v2 afterwards": v2_holds}
    return found


weights_into_v1 = Exercise(
    name="weights_into_v1",
    imports="from attention_helpers import SelfAttention_v1",
    title="From v2 back into v1",
    prompt="The notebook copied a v1 into a v2. Now go the other way, and make a `SelfAttention_v1` that returns the "
    "same context vectors as `v2` (whose widths are `v2.d_in` and `v2.d_out`). The new matrices must be trainable, "
    "and changing them later must not change `v2`.",
    deeper=True,
    solution=v1_from_v2,
    cases=layers_without_bias,
    call=moved,
    mistakes={
        ("copies without transposing", ".weight.T", ".weight"): """
            You copy the matrices as they are. But v2 stores them as (d_out, d_in) and v1 as (d_in, d_out), even if
            they're square. What's missing?""",
        "takes the weights over without transposing": ...,
        ("reshapes instead of transposing", ".weight.T", ".weight.reshape(v2.d_in, v2.d_out)"): """
            The shapes fit, but reshaping only fills new rows in the old order. What turns rows into columns?""",
        ("shares memory with v2", ".copy_(", " = nn.Parameter("): """
            The numbers are right, but they're still in v2's memory, because `.T` doesn't copy. What happens to v2 when
            you train v1?""",
        ("fills nothing", ".copy_(", ".clone().copy_("): """
            Your v1 still has the matrices it was created with. Does a line like `W = ...` write anything into v1?""",
    },
    hints=[
        "Make the layer first. Then copy three matrices, and compare the shape of each in v2 and in v1.",
        "`copy_` writes into a parameter, which PyTorch allows only inside `with torch.no_grad():`.",
        "`v1.W_query.copy_(v2.W_query.weight.T)`, and the same for key and value.",
    ],
    why="v1 computes x @ W where v2 computes x @ weight.T, so W is weight.T. `copy_` writes into v1's own parameters. "
    "To be sure, compare the outputs: `max_difference(v1(x), v2(x))` is below 1e-6.",
    moral="That's how you move weights between implementations. Notebook 06 does it with several heads.",
)


@weights_into_v1.mistake
def takes_the_weights_over_without_transposing(v2):
    """You use v2's matrices as they are. But v2 stores them as (d_out, d_in) and v1 as (d_in, d_out), even if they're
    square. A copy isn't enough: what else does each matrix need?"""
    v1 = SelfAttention_v1(v2.d_in, v2.d_out)
    for name in MATRICES:
        setattr(v1, name, nn.Parameter(getattr(v2, name).weight.clone()))
    return v1


def one_step(x, W_query, W_key, target, rate):
    """W_query (d_in, d_k) after one gradient step; x (n, d_in), W_key like W_query, target (n, n)."""
    W = W_query.clone().requires_grad_()
    scores = (x @ W) @ (x @ W_key).T  # (n, n)
    weights = torch.softmax(scores / W_key.shape[-1] ** 0.5, dim=-1)
    loss = (weights - target).square().sum()
    loss.backward()  # fills W.grad
    return W.detach() - rate * W.grad


def steps_to_take(generator):
    for n, d_in, d_k, rate in ((6, 3, 2, 10.0), (4, 4, 5, 0.5), (2, 3, 1, 1.0), (5, 1, 3, 2.0)):
        *tables, target = normal(generator, (n, d_in), (d_in, d_k), (d_in, d_k), (n, n))
        yield *tables, target.softmax(dim=-1), rate


def called_twice(answer, x, W_query, W_key, target, rate):
    """What two equal calls return, and whether PyTorch records it; if so, one call is enough."""
    first = answer(x, W_query, W_key, target, rate)
    tracked = getattr(first, "requires_grad", False)
    again = first if tracked else answer(x, W_query, W_key, target, rate)
    return {"matrix": first, "matrix in a second, equal call": again, "requires_grad": str(tracked)}


step_by_hand = Exercise(
    name="step_by_hand",
    title="One step of training",
    prompt="Train `W_query` by one gradient step at the given `rate`. The loss is the sum of all squared differences "
    "between the weights of `x` (scaled scores, then softmax) and `target`. Return the new matrix with "
    "`requires_grad` False, and don't change any argument, so that a second call with the same arguments returns the "
    "same.",
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
        ("marks the caller's matrix", "W_query.clone()", "W_query"): """
            Right once. But you marked the caller's own matrix, so the next call adds to its gradient. Which matrix
            could you mark instead?""",
        ("takes the mean of the squares", ".sum()", ".mean()"): """
            Your step is too short, because your loss is the mean of the squared differences. What does the prompt ask
            for?""",
    },
    hints=[
        "Copy `W_query`, mark the copy with `requires_grad_()`, and compute weights and loss from it.",
        "`loss.backward()` fills the copy's `.grad`. The step is `rate` times as long and goes in the opposite "
        "direction.",
        "`W = W_query.clone().requires_grad_()` first, and at the end `return W.detach() - rate * W.grad`.",
    ],
    why="`backward` adds to the `.grad` of the marked matrix. A new copy doesn't have one yet, so equal calls agree. "
    "And because the gradient points to where the loss grows, we subtract it.",
    moral="This is gradient descent. Training consists of many such steps, for all matrices.",
)

EXERCISES = [keys_by_hand, scores_that_are_scaled, step_by_hand, weights_into_v1]
progress = Progress(EXERCISES)
