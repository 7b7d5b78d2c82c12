"""Exercises of notebook 05: several heads side by side."""
# After a change: make exercises, then make refresh NOTEBOOK=05

import torch
from torch import nn

from attention_helpers.layers import MultiHeadAttentionWrapper

from .base import Exercise, Progress, normal


def side_by_side(heads, x):
    """Context (b, num_tokens, num_heads * head_dim): what each of `heads` returns for x, head after head."""
    contexts = [head(x) for head in heads]  # (b, num_tokens, head_dim) each
    return torch.cat(contexts, dim=-1)


SIZES = [(2, 2, 6, 3, 3), (3, 1, 4, 3, 3), (4, 3, 1, 1, 1), (1, 2, 5, 4, 4)]  # num_heads, b, num_tokens, d_in, head_dim


def tokens_and_matrices(generator):
    """For each call x, (b, num_tokens, d_in), and a matrix (d_in, head_dim) for each head."""
    for num_heads, b, num_tokens, d_in, head_dim in SIZES:
        yield normal(generator, (b, num_tokens, d_in), *[(d_in, head_dim)] * num_heads)


heads_side_by_side = Exercise(
    name="heads_side_by_side",
    title="Heads side by side",
    prompt="`heads` is a list of functions or layers, of any length. Each takes tokens x, (b, num_tokens, d_in), and "
    "returns context vectors, (b, num_tokens, head_dim). Run all on the same x, and put each token's context vectors "
    "side by side, head after head. (`torch.cat(tensors, dim=...)` joins tensors along a dimension that they already "
    "have.)",
    solution=side_by_side,
    cases=tokens_and_matrices,
    call=lambda answer, x, *matrices: answer([matrix.__rmatmul__ for matrix in matrices], x),
    mistakes={
        ("joins along the first dimension", ", dim=-1", ""): """
            Your batch has grown, because `torch.cat` joins along the first dimension if you don't name one. Which
            dimension should grow?""",
        ("joins along the tokens", "dim=-1", "dim=1"): """
            Your sentences have become longer. Shouldn't each token's context vector become wider instead?""",
        ("stacks the heads", "torch.cat(contexts, dim=-1)", "torch.stack(contexts)"): """
            `torch.stack` makes a new dimension for the heads. Which function joins tensors along a dimension that they
            already have?""",
        ("adds the heads up", "torch.cat(contexts, dim=-1)", "torch.stack(contexts).sum(dim=0)"): """
            You add the heads up, so nobody can tell any more what came from which head. How can every head keep its own
            columns?""",
        ("gives each head what the one before returned", "head(x) for", "(x := head(x)) for"): """
            Your heads run one after another, each on what the one before returned. What should each head get?""",
        ("lets the heads take turns", "torch.cat(contexts, dim=-1)", "torch.stack(contexts, dim=-1).flatten(-2)"): """
            The width is right, but your heads take turns, one column each. Where should the last column of the first
            head be?""",
    },
    hints=[
        "Compare the shape of one head's context with the shape that you should return. Which size is different?",
        "List what all heads return, `[head(x) for head in heads]`. Along which `dim` should `torch.cat` join them?",
        "`torch.cat` takes the complete list, and `dim=-1` means the last dimension.",
    ],
    why="Along the last dimension, `torch.cat` leaves sentences and tokens where they are and puts the columns of all "
    "heads next to each other, so the next layer can tell the heads apart.",
    moral="The class below does just this.",
)


def wrapper_of_width(d_in, width, context_length, num_heads):
    """MultiHeadAttentionWrapper whose output is `width` wide; ValueError if there is none."""
    if width % num_heads != 0:
        raise ValueError(f"num_heads must divide width, got num_heads={num_heads}, width={width}")
    return MultiHeadAttentionWrapper(d_in, width // num_heads, context_length, 0.0, num_heads)


def wrapper_facts(build, d_in, width, context_length, num_heads):
    """Facts about a wrapper, and what it returns for ones if all its parameters are 1."""
    facts = dict.fromkeys(("type", "context_length", "output", "number of heads"))
    try:
        facts["type"] = wrapper = build(d_in, width, context_length, num_heads)
    except ValueError as error:
        if error.args and width % num_heads:
            error.args = ("refused",)  # in whichever words: so a mistake elsewhere is still recognised
        raise
    if isinstance(wrapper, MultiHeadAttentionWrapper):
        for parameter in wrapper.parameters():
            nn.init.ones_(parameter)
        facts["context_length"] = len(wrapper.heads[0].mask)
        facts["output"] = wrapper(torch.ones(2, facts["context_length"], d_in))
        facts["number of heads"] = len(wrapper.heads)
    return facts


WIDTHS = [(3, 2, 6, 2), (4, 6, 5, 3), (2, 5, 3, 1), (1, 4, 2, 4), (5, 12, 1, 2), (3, 5, 4, 2), (3, 2, 4, 4)]

width_from_heads = Exercise(
    name="width_from_heads",
    imports="from attention_helpers import MultiHeadAttentionWrapper",
    title="Two heads, width 2 in all",
    prompt="The rest of a model usually fixes how wide the output must be. Make a `MultiHeadAttentionWrapper` without "
    "dropout and biases. Its output should have the given `width`, shared equally by `num_heads` heads. For example, "
    "two heads of width 1 make a width of 2. If `num_heads` doesn't divide `width`, raise a `ValueError`.",
    solution=wrapper_of_width,
    cases=lambda generator: WIDTHS,
    call=wrapper_facts,
    mistakes={
        ("gives every head the whole width", "width // num_heads", "width"): """
            Your output is too wide. Whose width does `d_out` mean in this class?""",
        ("makes one wide head", " // num_heads, context_length, 0.0, num_heads", ", context_length, 0.0, 1"): """
            The width is right, but it all comes from a single head. How can `num_heads` heads share it?""",
        ("rounds where the heads do not divide the width", "width % num_heads != 0", "False"): """
            If `num_heads` doesn't divide `width`, then `//` rounds down silently and the output is too narrow. How do
            you notice that beforehand?""",
    },
    hints=[
        "`d_out` is the width of each head. So how wide is the output of all heads?",
        "The output is `num_heads * d_out` wide. Which `d_out` makes that equal to `width`, and is it a whole number?",
        "Raise the error if `width % num_heads != 0`. In all other cases `d_out` is `width // num_heads`.",
    ],
    why="The wrapper puts `num_heads` context vectors of width `d_out` side by side, so `d_out` must be `width / "
    "num_heads`, which `//` would round down silently if it isn't a whole number.",
    moral="In notebook 06, `d_out` is the width of all heads together, and the class does this division for you.",
)


def parameters_of_wrapper(d_in, d_out, context_length, num_heads, qkv_bias):
    """How many numbers a MultiHeadAttentionWrapper with these arguments trains."""
    of_one_matrix = d_in * d_out
    if qkv_bias:
        of_one_matrix = of_one_matrix + d_out
    return num_heads * 3 * of_one_matrix


parameters_of_heads = Exercise(
    name="parameters_of_heads",
    title="How many parameters?",
    prompt="How many numbers does a `MultiHeadAttentionWrapper` train? Find a formula. The arguments mean the same as "
    "in the class (`qkv_bias` is `True` or `False`), and you may not need all of them.",
    solution=parameters_of_wrapper,
    cases=lambda generator: [(3, 2, 6, 2, False), (3, 2, 6, 2, True), (5, 1, 4, 3, True), (1, 4, 2, 1, True)],
    mistakes={
        ("takes d_out for the width of all heads", "num_heads * 3", "3"): """
            That's right for a single head. How many heads are there, and do they share their matrices?""",
        ("counts one matrix per head", " * 3", ""): """
            You count one matrix per head. What makes its queries, what its keys, and what its values?""",
        ("leaves the biases out", "if qkv_bias", "if False"): """
            That's right without biases. What does each `nn.Linear` train besides its matrix if `qkv_bias` is
            `True`?""",
        ("always counts the biases", "if qkv_bias", "if True"): """
            That's right with biases. How many are there if `qkv_bias` is `False`?""",
        ("counts the masks", "3 * of_one_matrix", "(3 * of_one_matrix + context_length**2)"): """
            You count the masks too. A mask is a buffer, so it moves with the layer. But is it trained?""",
    },
    hints=[
        "Start with one head without biases. How many matrices does it have, and how many entries does each one have?",
        "Each head has three matrices of `d_in * d_out` entries. If `qkv_bias` is `True`, each also has `d_out` "
        "biases.",
        "With biases it's `num_heads * 3 * (d_in * d_out + d_out)`. What changes without them?",
    ],
    why="Each head has its own `W_query`, `W_key` and `W_value`, and each of these has `d_in * d_out` entries and, "
    "with `qkv_bias`, another `d_out` biases.",
    moral="So a longer context needs no more parameters.",
)


EXERCISES = [heads_side_by_side, width_from_heads, parameters_of_heads]
progress = Progress(EXERCISES)
