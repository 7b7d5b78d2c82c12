"""Exercises of notebook 01: from dot products to context vectors."""

import math

import torch

from .base import Exercise, Progress


def vectors(generator, *shape, scale=1.0):
    return torch.randn(*shape, generator=generator) * scale


def weights_for_query(query, inputs):
    """Weights (n,) of one query (d,) over the rows of inputs (n, d): softmax of dot products."""
    scores = torch.empty(inputs.shape[0])
    for i, row in enumerate(inputs):
        score = 0.0
        for a, b in zip(query, row, strict=True):
            score = score + a * b
        scores[i] = score
    exponentials = torch.exp(scores)
    return exponentials / exponentials.sum()


weights_by_loops = Exercise(
    name="weights_by_loops",
    title="Weights of one query",
    prompt="Compute the attention weights of one query over all tokens, without a matrix product: loop over the "
    "tokens, and over the entries of the two vectors. Then turn the scores into weights.",
    solution=weights_for_query,
    cases=lambda g: [(vectors(g, d), vectors(g, n, d)) for n, d in ((6, 3), (1, 4), (5, 1), (9, 7))],
    rows_sum_to_one=True,
    mistakes=[
        (
            "divides the scores by their sum",
            "torch.exp(scores)",
            "scores",
            "Your weights are the scores divided by their sum. A score can be negative, and then so is its weight. "
            "Make every score positive first, in the way that softmax does.",
        ),
        (
            "stops at the scores",
            "return exponentials / exponentials.sum()",
            "return scores",
            "These are the scores. They are still to be turned into weights: positive numbers that sum to 1.",
        ),
        (
            "does not divide by the sum",
            " / exponentials.sum()",
            "",
            "The exponentials are right, but they do not sum to 1 yet.",
        ),
        (
            "takes the cosine for the dot product",
            "scores[i] = score",
            "scores[i] = score / (query.norm() * row.norm())",
            "You divide by the lengths of the vectors: that is a cosine. A dot product keeps the lengths.",
        ),
        (
            "compares by distance",
            "scores[i] = score",
            "scores[i] = -(query - row).norm()",
            "Your scores are distances. Here two vectors are compared by their dot product.",
        ),
    ],
    hints=[
        "A dot product is a sum: of the products of entries that stand in the same place.",
        "Collect one score a token. Then take the exponential, and divide by the sum of all exponentials.",
        "The score of token `i` is the sum over `k` of `query[k] * inputs[i, k]`; the weights are "
        "`torch.exp(scores) / torch.exp(scores).sum()`.",
    ],
    why="A score is one dot product, so one number a token; softmax then makes the scores positive and lets "
    "them sum to 1, whatever their signs.",
    moral="The matrix product `inputs @ query` does both loops at once.",
)


def stable_softmax(scores):
    """Softmax over the last dimension of scores (..., n); a row of -inf alone becomes zeros."""
    largest = scores.max(dim=-1, keepdim=True).values  # (..., 1)
    largest = torch.where(largest.isinf(), torch.zeros_like(largest), largest)
    exponentials = torch.exp(scores - largest)
    total = exponentials.sum(dim=-1, keepdim=True)  # (..., 1)
    return exponentials / torch.where(total == 0, torch.ones_like(total), total)


def hard_scores(generator):
    rows = vectors(generator, 5, 4, scale=3.0)
    rows[1] += 1000
    rows[2, 1:] = -math.inf
    rows[3] = -math.inf
    rows[4] -= 1000
    return [(vectors(generator, 3, 6),), (rows,), (vectors(generator, 7),), (vectors(generator, 2, 3, 5, scale=40.0),)]


softmax_that_survives = Exercise(
    name="softmax_that_survives",
    title="A softmax that survives",
    prompt="Write softmax over the last dimension by `exp` and `sum`, so that scores of +1000 give no `nan`. A score "
    "of `-inf` must get weight 0, and a row in which every score is `-inf` must become a row of zeros.",
    solution=stable_softmax,
    cases=hard_scores,
    mistakes=[
        "overflows",
        (
            "gives NaN for a row of -inf",
            "torch.where(total == 0, torch.ones_like(total), total)",
            "total",
            "Almost: a row of `-inf` alone still becomes NaN, as it does in torch. Nothing is left to share out "
            "there, and this exercise asks for zeros.",
        ),
        (
            "works over the first dimension",
            "dim=-1",
            "dim=0",
            "Your columns sum to 1, not your rows: the weights of one query stand in a row, the last dimension.",
        ),
        "subtracts the maximum of the whole table",
        (
            "adds a small number to the sum",
            "torch.where(total == 0, torch.ones_like(total), total)",
            "(total + 1e-3)",
            "A small number in the divisor keeps NaN away, but then no row sums to 1. Treat the empty row by itself.",
        ),
    ],
    hints=[
        "Adding the same number to every score of a row does not change its softmax.",
        "Subtract each row's maximum, with `keepdim=True`. Then look at `-inf - (-inf)`: what is it?",
        "Use `torch.where` twice: where the maximum is `-inf`, subtract 0; where the sum is 0, divide by 1.",
    ],
    why="Subtracting a row's maximum leaves its softmax as it is, and no exponential exceeds 1. Where the "
    "maximum is itself -inf, nothing may be subtracted: -inf - (-inf) is NaN. The last line then divides "
    "0 by 1.",
    moral="torch's own softmax subtracts the maximum as well.",
)


@softmax_that_survives.mistake
def overflows(scores):
    """`exp(1000)` is more than a float32 holds, and inf divided by inf is NaN. Shift each row before the
    exponential. Which shift leaves the weights as they are?"""
    exponentials = torch.exp(scores)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@softmax_that_survives.mistake
def subtracts_the_maximum_of_the_whole_table(scores):
    """You subtract one maximum from all rows. A row that lies far below it underflows to 0/0. Each row needs its
    own."""
    exponentials = torch.exp(scores - scores.max())
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def all_contexts(inputs):
    """Context vectors (n, d) of all tokens of inputs (n, d), each asking as it stands."""
    return torch.softmax(inputs @ inputs.T, dim=-1) @ inputs


contexts_at_once = Exercise(
    name="contexts_at_once",
    title="All contexts in one product",
    prompt="Compute the context vectors of all tokens at once: every token asks, every token is compared with every "
    "token by a dot product, and no loop is needed. There are no trained matrices yet, and no scaling.",
    solution=all_contexts,
    cases=lambda g: [(vectors(g, n, d),) for n, d in ((6, 3), (1, 2), (4, 4), (3, 8))],
    mistakes=[
        (
            "mixes by columns",
            "dim=-1",
            "dim=0",
            "You mix by weights whose columns sum to 1. Row i holds the weights of query i, and it is the rows that "
            "must sum to 1.",
        ),
        (
            "forgets the softmax",
            "torch.softmax(inputs @ inputs.T, dim=-1)",
            "inputs @ inputs.T",
            "You mix the inputs by raw scores. Between the scores and the mixture stands the softmax.",
        ),
        (
            "stops at the weights",
            "torch.softmax(inputs @ inputs.T, dim=-1) @ inputs",
            "torch.softmax(inputs @ inputs.T, dim=-1)",
            "These are the weights, one row a query. The context vectors are the inputs, mixed by them.",
        ),
        (
            "scales the scores",
            "inputs.T",
            "inputs.T / inputs.shape[1] ** 0.5",
            "You divide the scores by the square root of the width. That comes in the next notebook, with trained "
            "queries and keys; here the plain dot products are asked for.",
        ),
        (
            "takes one softmax for the whole table",
            "torch.softmax(inputs @ inputs.T, dim=-1)",
            "torch.softmax((inputs @ inputs.T).flatten(), 0).view(len(inputs), -1)",
            "All your weights together sum to 1. Every query has its own weights: each row must sum to 1.",
        ),
    ],
    hints=[
        "Three steps: scores (n, n), weights (n, n), context vectors (n, d).",
        "`inputs @ inputs.T` has the score of query i and token j in row i, column j. Which dimension is the token's?",
        "Softmax with `dim=-1`, then a matrix product of the weights with the inputs.",
    ],
    why="Row i of the scores belongs to query i. Softmax over the last dimension makes each row a mixture, "
    "and the second product mixes the inputs by it.",
    moral="Two matrix products and a softmax: that is simple self-attention.",
)


def weights_at_temperature(scores, temperature):
    """Weights (..., n) of scores (..., n): below 1 sharper, above 1 flatter. ValueError for ≤ 0."""
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    return torch.softmax(scores / temperature, dim=-1)


def temperatures(generator):
    warm = [(vectors(generator, *shape), t) for shape, t in (((6, 6), 1.0), ((4,), 0.25), ((2, 3, 5), 7.5))]
    return [*warm, (vectors(generator, 3), 0.0), (vectors(generator, 3), -2.0)]


temperature = Exercise(
    name="temperature",
    title="Temperature",
    prompt="Divide the scores by a temperature before the softmax: below 1 the weights become sharper, above 1 "
    "flatter. A temperature of 0 or below makes no sense: raise a `ValueError` that says so.",
    solution=weights_at_temperature,
    cases=temperatures,
    rows_sum_to_one=True,
    mistakes=[
        "multiplies by the temperature",
        "divides after the softmax",
        (
            "takes a power of the weights and leaves it at that",
            "scores / temperature, dim=-1)",
            "scores, dim=-1) ** (1 / temperature)",
            "A power of the weights does sharpen or flatten, but the rows no longer sum to 1.",
        ),
        (
            "takes any temperature",
            "temperature <= 0",
            "False",
            "Right above 0. A temperature of 0 or below should end in a `ValueError`, and yours returns weights.",
        ),
    ],
    hints=[
        "Where must a number act, so that the softmax still makes rows that sum to 1?",
        "Check first: `if temperature <= 0: raise ValueError(...)`. Then divide the scores.",
        "`torch.softmax(scores / temperature, dim=-1)`, after the check.",
    ],
    why="Dividing the scores keeps the weights a softmax: they stay positive and each row sums to 1. At 0 the "
    "division fails, and below it the order of the tokens would turn around.",
    moral="In notebook 02 the square root of d_k plays the part of a temperature.",
)


@temperature.mistake
def multiplies_by_the_temperature(scores, temperature):
    """You multiply: then a high temperature sharpens. It should flatten. (And what of 0 and below?)"""
    return torch.softmax(scores * temperature, dim=-1)


EXERCISES = [weights_by_loops, softmax_that_survives, contexts_at_once, temperature]
progress = Progress(EXERCISES)


@temperature.mistake
def divides_after_the_softmax(scores, temperature):
    """You divide the weights, and they no longer sum to 1. Divide the scores, before the softmax."""
    return torch.softmax(scores, dim=-1) / temperature
