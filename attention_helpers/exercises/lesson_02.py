"""Exercises of notebook 02: scaled scores, two ways to keep a matrix, and a step of training."""

import torch
from torch import nn

from ..layers import SelfAttention_v1, SelfAttention_v2
from .base import Exercise, Progress

MATRICES = ("W_query", "W_key", "W_value")


def normal(generator, *shapes):
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def scaled_scores(x, W_query, W_key):
    """Scores (..., num_tokens, num_tokens) of x (..., num_tokens, d_in), over the root of d_k."""
    queries = x @ W_query  # (..., num_tokens, d_k)
    keys = x @ W_key  # (..., num_tokens, d_k)
    return queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5


def embeddings_and_matrices(generator):
    """One sentence or a batch; num_tokens, d_in and d_k mostly differ, so that a wrong width shows."""
    shapes = [((6, 3), 2), ((4, 5), 7), ((1, 3), 3), ((5, 2), 1), ((2, 6, 3), 5), ((3, 1, 2), 4)]
    return [normal(generator, x, (x[-1], d_k), (x[-1], d_k)) for x, d_k in shapes]


scores_that_are_scaled = Exercise(
    name="scores_that_are_scaled",
    title="Scaled scores",
    prompt="From the embeddings `x` make queries and keys with the two matrices, then scores: row i holds "
    "the dot products of query i with every key, divided by the square root of d_k. `x` is one sentence, "
    "(num_tokens, d_in), or a batch, (b, num_tokens, d_in).",
    solution=scaled_scores,
    cases=embeddings_and_matrices,
    mistakes=[
        (
            "scales by d_in",
            "keys.shape",
            "x.shape",
            "You divide by the root of d_in, an embedding's width. How many products does one score add up?",
        ),
        (
            "forgets the root",
            " ** 0.5",
            "",
            "You divide by d_k itself: that divides the variance of the scores by d_k squared, too much.",
        ),
        (
            "does not scale",
            " / keys.shape[-1] ** 0.5",
            "",
            "These are plain dot products, not scaled yet.",
        ),
        (
            "multiplies",
            "** 0.5",
            "** -0.5",
            "You multiply by the root of d_k, as dividing by `** -0.5` does. Scores should become smaller.",
        ),
        (
            "scales by the number of tokens",
            "keys.shape[-1]",
            "x.shape[0]",
            "The first dimension of the keys counts tokens, or sentences. Their width is the last one.",
        ),
        (
            "takes queries for keys",
            "queries @ keys.transpose",
            "keys @ queries.transpose",
            "Your table is transposed: row i should belong to query i, and yours belongs to key i.",
        ),
        (
            "uses .T on a batch",
            "keys.transpose(-2, -1)",
            "keys.permute(*range(keys.ndim)[::-1])",  # what .T does; on a batch that warns
            "Right for one sentence. On a batch `.T` reverses all three dimensions: swap the last two.",
        ),
    ],
    hints=[
        "Three products: queries, keys, and then queries with transposed keys. What shape has each?",
        "`keys.transpose(-2, -1)` works with and without a batch, and d_k is `keys.shape[-1]`.",
        "The last line is `queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5`.",
    ],
    why="A score adds up d_k products: the width that counts is a key's, the last dimension, batch or not.",
    moral="Every layer of this course scales its scores in this way.",
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
    prompt="The lesson copied a v1 into a v2. Go the other way: make a `SelfAttention_v1` that gives the "
    "context vectors of `v2` (its widths: `v2.d_in`, `v2.d_out`). The new matrices must be trainable, and "
    "the layer's own: changing them later must not change `v2`.",
    solution=v1_from_v2,
    cases=layers_without_bias,
    call=moved,
    mistakes=[
        (
            "copies without transposing",
            ".weight.T",
            ".weight",
            "You move matrices as they lie. v2 keeps them as (d_out, d_in), v1 as (d_in, d_out), square or not.",
        ),
        "takes the weights over without transposing",
        (
            "reshapes instead of transposing",
            ".weight.T",
            ".weight.reshape(v2.d_in, v2.d_out)",
            "The shapes fit, but reshaping fills new rows in the old order. Rows should become columns.",
        ),
        (
            "shares memory with v2",
            ".copy_(",
            " = nn.Parameter(",
            "Right numbers, but in v2's memory: `.T` copies nothing, so training v1 would move v2 too.",
        ),
        (
            "fills nothing",
            ".copy_(",
            ".clone().copy_(",
            "Your v1 still has the matrices it was made with. A line like `W = ...` writes nothing into v1.",
        ),
    ],
    hints=[
        "Make the layer first. Then move three matrices, and look at the shape of each before and after.",
        "`copy_` writes into a parameter. torch allows that only within `with torch.no_grad():`.",
        "`v1.W_query.copy_(v2.W_query.weight.T)`, and the same for key and value.",
    ],
    why="v1 computes x @ W where v2 computes x @ weight.T, so W is weight.T. `copy_` writes into v1's own "
    "parameters. The test of truth is the output: `max_difference(v1(x), v2(x))` is below 1e-6.",
    moral="So one moves weights between implementations; notebook 06 does it with several heads.",
)


@weights_into_v1.mistake
def takes_the_weights_over_without_transposing(v2):
    """You move matrices as they lie. v2 keeps them as (d_out, d_in), v1 as (d_in, d_out), square or not.
    A copy alone is not enough."""
    v1 = SelfAttention_v1(v2.d_in, v2.d_out)
    for name in MATRICES:
        setattr(v1, name, nn.Parameter(getattr(v2, name).weight.clone()))
    return v1


def variances_of_scores(widths, num_pairs, generator):
    """A list of one variance a width: of num_pairs dot products q·k, q and k standard normal."""
    variances = []
    for d_k in widths:
        queries = torch.randn(num_pairs, d_k, generator=generator)
        keys = torch.randn(num_pairs, d_k, generator=generator)
        variances.append((queries * keys).sum(dim=-1).var().item())
    return variances


def with_seed(answer, widths, num_pairs, generator):
    torch.default_generator.manual_seed(0)  # an answer that ignores its generator is then the same each time
    return answer(widths, num_pairs, generator)


variance_and_width = Exercise(
    name="variance_and_width",
    title="Find d_k by measuring",
    prompt="For each width in `widths`, draw queries, then keys, with `torch.randn` and `generator`, both of "
    "shape (num_pairs, width). Take the dot product of each query with its own key, and measure the variance "
    "of these products with `var()`. Return a list, one number a width. Try it with `[1, 4, 16, 64]`.",
    solution=variances_of_scores,
    cases=lambda g: [
        (widths, num_pairs, torch.Generator().manual_seed(num_pairs))
        for widths, num_pairs in (([2, 8], 500), ([1], 2), ([5, 1, 64], 40), ([512], 30))
    ],
    call=with_seed,
    mistakes=[
        (
            "measures the products of entries",
            ".sum(dim=-1)",
            "",
            "You measure products of single entries. A score is the sum of such products over the width.",
        ),
        (
            "compares every query with every key",
            "(queries * keys).sum(dim=-1)",
            "(queries @ keys.T)",
            "You compare every query with every key. Asked for: query 0 with key 0, 1 with 1, and so on.",
        ),
        (
            "takes the root",
            ".var()",
            ".std()",
            "This is the variance's root.",
        ),
        (
            "ignores the generator",
            ", generator=generator",
            "",
            "Your numbers do not come from `generator`. Hand it to both draws, and a run can be repeated.",
        ),
    ],
    hints=[
        "Write it for one width first: two draws, one dot product a row, one variance.",
        "The dot product of each query with its own key is `(queries * keys).sum(dim=-1)`.",
        "In the loop: draw twice, then append `(queries * keys).sum(dim=-1).var().item()` to the list.",
    ],
    why="A score adds up d_k independent products of variance 1, and their variances add up to d_k.",
    moral="With many pairs each variance is near its width: that is why scores are divided by its root.",
)


def one_step(x, W_query, W_key, target, rate):
    """W_query (d_in, d_k) after one gradient step; x (n, d_in), W_key as W_query, target (n, n)."""
    W = W_query.clone().requires_grad_()
    scores = (x @ W) @ (x @ W_key).T  # (n, n)
    weights = torch.softmax(scores / W_key.shape[-1] ** 0.5, dim=-1)
    loss = (weights - target).square().sum()
    loss.backward()  # fills W.grad
    return W.detach() - rate * W.grad


def steps_to_take(generator):
    cases = []
    for n, d_in, d_k, rate in ((6, 3, 2, 10.0), (4, 4, 5, 0.5), (2, 3, 1, 1.0), (5, 1, 3, 2.0)):
        *tables, target = normal(generator, (n, d_in), (d_in, d_k), (d_in, d_k), (n, n))
        cases.append((*tables, target.softmax(dim=-1), rate))
    return cases


def called_twice(answer, x, W_query, W_key, target, rate):
    """What two equal calls return, and whether torch tracks it; if so, one call says enough."""
    first = answer(x, W_query, W_key, target, rate)
    tracked = getattr(first, "requires_grad", False)
    again = first if tracked else answer(x, W_query, W_key, target, rate)
    return {"matrix": first, "matrix in a second, equal call": again, "requires_grad": str(tracked)}


step_by_hand = Exercise(
    name="step_by_hand",
    title="One step of training",
    prompt="Train `W_query` by one gradient step at the given `rate`. The loss is the sum of all squared "
    "differences between the weights of `x` (scaled scores, then softmax) and `target`. Return the new "
    "matrix, its `requires_grad` False. Change no argument: a second, equal call must give the same.",
    solution=one_step,
    cases=steps_to_take,
    call=called_twice,
    mistakes=[
        (
            "climbs",
            "- rate",
            "+ rate",
            "You step up the slope: the gradient says where the loss grows. Training goes the other way.",
        ),
        (
            "returns a tracked matrix",
            "W.detach()",
            "W",
            "Right numbers, but the result is still tracked: print it, and you see its `grad_fn`. Where does "
            "torch not track what you compute?",
        ),
        (
            "marks the caller's matrix",
            "W_query.clone()",
            "W_query",
            "Right once. You marked the caller's matrix, so the next call adds to its gradient: use a copy.",
        ),
        (
            "takes the mean of the squares",
            ".sum()",
            ".mean()",
            "Your loss is the mean of the squared differences, and so the step is shorter. Take their sum.",
        ),
    ],
    hints=[
        "Copy `W_query`, mark the copy with `requires_grad_()`, and compute weights and loss from it.",
        "`loss.backward()` fills the copy's `.grad`. The step goes against it, `rate` times as far.",
        "`W = W_query.clone().requires_grad_()` first, and at the end `return W.detach() - rate * W.grad`.",
    ],
    why="`backward` adds to the `.grad` of what was marked. A new copy has none yet, so equal calls agree. "
    "The gradient says where the loss grows, hence the minus.",
    moral="This is gradient descent: a whole training is many such steps, for every matrix.",
)

EXERCISES = [scores_that_are_scaled, weights_into_v1, variance_and_width, step_by_hand]
progress = Progress(EXERCISES)
