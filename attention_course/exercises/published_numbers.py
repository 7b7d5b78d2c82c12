"""Exercises of notebook 16: v1's matrices in v2, and the order in which a seed's numbers are drawn."""

import torch
from torch import nn

from attention_helpers.layers import SelfAttention_v1, SelfAttention_v2

from .base import Exercise, Progress, exercises_in, normal


def copy_matrices(v1, v2):
    """Copy v1's matrices into v2, which then returns what v1 returns."""
    with torch.no_grad():
        v2.W_query.weight.copy_(v1.W_query.T)
        v2.W_key.weight.copy_(v1.W_key.T)
        v2.W_value.weight.copy_(v1.W_value.T)


def run_both_versions(answer, x, *matrices):
    """v2's matrices, and what v2 and v1 return for x, (num_tokens, d_in), after an answer has copied these of v1.

    Its matrices, because v2 also returns what v1 returns if it gets v1's `forward`.
    """
    d_in, d_out = matrices[0].shape
    v1 = SelfAttention_v1(d_in, d_out)
    v2 = SelfAttention_v2(d_in, d_out)
    for parameter, matrix in zip(v1.parameters(), matrices, strict=True):
        parameter.data.copy_(matrix)
    answer(v1, v2)
    own = {name: getattr(v2, name).weight.detach() for name in ("W_query", "W_key", "W_value")}
    return own | {"v2(x)": v2(x).detach(), "v1(x)": v1(x).detach()}


def tokens_and_three_matrices(generator):
    """For each call x, (num_tokens, d_in), and three matrices (d_in, d_out); the first ones are square."""
    for num_tokens, d_in, d_out in ((6, 3, 3), (4, 2, 2), (6, 3, 2), (5, 2, 4), (3, 6, 1)):
        yield normal(generator, (num_tokens, d_in), *[(d_in, d_out)] * 3)


def copies_the_other_way(v1, v2):
    with torch.no_grad():
        v1.W_query.copy_(v2.W_query.weight.T)
        v1.W_key.copy_(v2.W_key.weight.T)
        v1.W_value.copy_(v2.W_value.weight.T)


copying_matrices = Exercise(
    title="v1's matrices in v2",
    prompt="Give v2 the numbers of v1's matrices. `v1.W_query` is a matrix, and `v2.W_query` is a layer that has its "
    "matrix in `weight`. (`a.copy_(b)` writes b's numbers into a. If a is trained, write that below "
    "`with torch.no_grad():`.)",
    solution=copy_matrices,
    cases=tokens_and_three_matrices,
    call=run_both_versions,
    mistakes={
        (".T", ""): "You copy the matrices as they are. That's an error if d_in and d_out differ, but not for square "
        "matrices, where v2 just returns other numbers. What's the shape of `nn.Linear(3, 2).weight`?",
        (".T", ".reshape(v2.W_query.weight.shape)"): "Your shapes fit, but `reshape` and `view` keep the numbers in "
        "their order, so they end up in other places. Which operation exchanges rows and columns?",
        copies_the_other_way: "You changed v1. Which of the two should keep its numbers?",
        ("        v2.W_value.weight.copy_(v1.W_value.T)\n", ""): "v2's attention weights are right, but its values "
        "aren't v1's. Which matrix haven't you copied?",
        (
            "v1.W_query.T)\n        v2.W_key.weight.copy_(v1.W_key.T)",
            """v1.W_key.T)
        v2.W_key.weight.copy_(v1.W_query.T)""",
        ): "Your queries are v1's keys, and your keys are its queries, so the "
        "scores are transposed. Which matrix goes where?",
    },
    heading="16#3.4.2:-two-classes",
    hints={
        "W_query": "`nn.Linear` computes `x @ weight.T`, so its weight is (d_out, d_in). Inside `with "
        "torch.no_grad():`, the first line is `v2.W_query.weight.copy_(v1.W_query.T)`.",
        "W_key": "What does `x @ v1.W_key` compute, and what does `v2.W_key(x)` compute?",
        "W_value": "What does `x @ v1.W_value` compute, and what does `v2.W_value(x)` compute?",
    },
    why="`nn.Linear` computes `x @ weight.T`, and with `weight = W.T` that's `x @ W`, as in v1.",
    moral="Section 3.4.2 does this to make v2 print v1's numbers.",
)


def published_matrices(d_in, d_out):
    """W_query, W_key and W_value as the book draws them, (d_in, d_out)."""
    torch.manual_seed(123)
    query = torch.rand(d_in, d_out)
    key = torch.rand(d_in, d_out)
    value = torch.rand(d_in, d_out)
    return query, key, value


def seeds_each(d_in, d_out):
    matrices = []
    for _ in range(3):
        torch.manual_seed(123)
        matrices.append(torch.rand(d_in, d_out))
    return tuple(matrices)


def draws_by_linear(d_in, d_out):
    torch.manual_seed(123)
    return tuple(nn.Linear(d_in, d_out, bias=False).weight.detach().T for _ in range(3))


drawing_in_order = Exercise(
    title="Draw the published matrices",
    prompt="Draw the three matrices of section 3.4.1 without the class. The seed is 123, and each matrix comes from a "
    "`torch.rand` of its own. Return them as a tuple: `W_query`, `W_key`, `W_value`.",
    solution=published_matrices,
    cases=lambda g: [(3, 2), (3, 3), (2, 4), (1, 1)],
    parts="W_query W_key W_value",
    mistakes={
        seeds_each: "Your three matrices are equal, because each begins with the seed's first numbers. How often "
        "should the seed be set?",
        ("return query, key, value", "return key, query, value"): "These are the right numbers, but the key's matrix "
        "has the query's. Whose are the seed's first numbers?",
        ("return query, key, value", "return key, value, query"): "These are the right numbers, but the value's matrix "
        "has the query's. Whose are the seed's first numbers?",
        ("torch.rand(", "torch.randn("): "`torch.randn` draws from a normal distribution, also below 0. Can a matrix "
        "of v1 have a negative entry?",
        draws_by_linear: "`nn.Linear` starts with numbers around 0, as v2 does. How does the prompt draw?",
        ("torch.rand(d_in, d_out)", "torch.rand(d_out, d_in).T"): "You draw (d_out, d_in) and transpose. The numbers "
        "are the seed's, but they fill each matrix in another order. Which shape do the lessons draw?",
        ("return query, key, value", "return query, value, key"): "These are the right numbers, but key and value are "
        "exchanged. Whose numbers come second?",
    },
    heading="16#3.4.1:-one-query,-three-matrices",
    hints={
        "W_query": "A seed fixes a row of numbers. Set it once, before the first matrix: after "
        "`torch.manual_seed(123)`, `torch.rand(d_in, d_out)` draws `W_query`.",
        "W_key": "Each call of `torch.rand` takes the next numbers. The second one draws `W_key`.",
        "W_value": "Each call of `torch.rand` takes the next numbers. The third one draws `W_value`.",
    },
    why="After the seed, the first d_in · d_out numbers belong to `W_query`, the next ones to `W_key`, and the ones "
    "after these to `W_value`.",
    moral="A class with the same formula prints other numbers if it draws its matrices in another order.",
)

EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
