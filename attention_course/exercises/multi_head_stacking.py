"""Exercises of notebook 05: several heads side by side."""

import torch

from .base import Exercise, Progress, exercises_in, normal


def side_by_side(heads, x):
    """All heads' context vectors, (b, num_tokens, num_heads * head_dim)."""
    contexts = [head(x) for head in heads]  # (b, num_tokens, head_dim) each
    return torch.cat(contexts, dim=-1)


SIZES = [(2, 3, 6, 4, 4), (3, 1, 4, 3, 3), (4, 3, 1, 5, 2), (1, 2, 5, 4, 4)]  # num_heads, b, num_tokens, d_in, head_dim


def tokens_and_matrices(generator):
    """For each call x, (b, num_tokens, d_in), and a matrix (d_in, head_dim) for each head."""
    for num_heads, b, num_tokens, d_in, head_dim in SIZES:
        yield normal(generator, (b, num_tokens, d_in), *[(d_in, head_dim)] * num_heads)


heads_side_by_side = Exercise(
    title="Heads side by side",
    prompt="`heads` is a list of functions or layers. Each takes tokens x, (b, num_tokens, d_in), and returns context "
    "vectors, (b, num_tokens, head_dim). Run all on the same x, and put each token's context vectors side by side, "
    "head after head. (`torch.cat(tensors, dim=...)` joins tensors along a dimension that they already have.)",
    solution=side_by_side,
    cases=tokens_and_matrices,
    call=lambda answer, x, *matrices: answer([matrix.__rmatmul__ for matrix in matrices], x),
    mistakes={
        (", dim=-1", ""): "Your batch has grown: the heads are joined along the first dimension, as by `torch.cat` "
        "without `dim`. Which should grow?",
        ("dim=-1", "dim=1"): "Your sentences have become longer. Shouldn't each token's vector become wider?",
        ("torch.cat(contexts, dim=-1)", "torch.stack(contexts)"): "`torch.stack` makes a new dimension for the heads. "
        "Which function joins tensors along a dimension that they already have?",
        ("torch.cat(contexts, dim=-1)", "torch.stack(contexts).sum(dim=0)"): "You add the heads up, so nobody can tell "
        "any more what came from which head. How can every head keep its own columns?",
        ("head(x) for", "(x := head(x)) for"): "Your heads run one after another, each on what the one before "
        "returned. What should each head get?",
        ("torch.cat(contexts, dim=-1)", "torch.stack(contexts, dim=-1).flatten(-2)"): "The width is right, but your "
        "heads take turns, one column each. Where should the last column of the first head be?",
        ("[head(x) for head in heads]", "[heads[0](x), heads[1](x)]"): "You take two heads, but the list can have any "
        "number of them. How do you run every head of a list?",
        ("torch.cat(contexts, dim=-1)", "contexts[-1]"): "That's what the last head returns. Where are the others' "
        "results?",
        ("torch.cat(contexts, dim=-1)", "contexts[0]"): "That's what the first head returns. Does your loop, or your "
        "`return`, reach the other heads?",
        ("torch.cat(contexts", "torch.cat([x, *contexts]"): "Your result begins with x itself. What should be to the "
        "left of the first head's columns?",
        ("contexts, dim", "contexts[::-1], dim"): "Your heads are in reverse order. Whose columns should come first?",
    },
    heading="05#A-second-head",
    hints={
        "contexts": "List what all heads return, `[head(x) for head in heads]`.",
        "result": "Compare the shape of one head's context with the shape that you should return. Along which `dim` "
        "should `torch.cat` join the complete list?",
    },
    why="Along the last dimension, `torch.cat` puts the columns of all heads next to each other, and leaves sentences "
    "and tokens where they are.",
    moral="The class below does just this.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
