"""Exercises of notebook 05: several heads side by side."""

import torch
from torch import nn

from ..layers import MultiHeadAttentionWrapper
from .base import Exercise, Progress


def side_by_side(contexts):
    """Context (b, num_tokens, num_heads * head_dim) of a list of (b, num_tokens, head_dim)."""
    return torch.cat(contexts, dim=-1)


CONTEXTS = [(2, 2, 6, 2), (3, 1, 4, 3), (4, 3, 1, 1), (1, 2, 5, 4)]  # num_heads, b, num_tokens, head_dim

heads_side_by_side = Exercise(
    name="heads_side_by_side",
    title="Heads side by side",
    prompt="`contexts` is a list: what each head made of the same input, `(b, num_tokens, head_dim)` each. "
    "Put all heads, one or more, side by side, head after head: the context of each token becomes wider.",
    solution=side_by_side,
    cases=lambda generator: [torch.randn(size, generator=generator).unbind() for size in CONTEXTS],
    call=lambda answer, *contexts: answer([*contexts]),  # a head an argument, so that each is watched
    mistakes=[
        (
            "joins along the first dimension",
            ", dim=-1",
            "",
            "You join along the first dimension, as `torch.cat` does unless told: your batch grows.",
        ),
        (
            "joins along the tokens",
            "dim=-1",
            "dim=1",
            "Your sentences become longer. It is each token's context that should grow.",
        ),
        (
            "stacks the heads",
            "torch.cat(contexts, dim=-1)",
            "torch.stack(contexts)",
            "`torch.stack` makes a new dimension for the heads. Join them along one that is there already.",
        ),
        (
            "adds the heads up",
            "torch.cat(contexts, dim=-1)",
            "torch.stack(contexts).sum(dim=0)",
            "You add the heads up: which part came from which head is lost. Keep every head's numbers.",
        ),
        (
            "averages the heads",
            "torch.cat(contexts, dim=-1)",
            "torch.stack(contexts).mean(dim=0)",
            "You average the heads: what sets one apart from another is lost. Keep every head's numbers.",
        ),
        (
            "lets the heads take turns",
            "torch.cat(contexts, dim=-1)",
            "torch.stack(contexts, dim=-1).flatten(-2)",
            "Your heads take turns, a column each. All columns of the first head should come first.",
        ),
    ],
    hints=[
        "Compare the shape of one head's context with the shape you should return: which size differs?",
        "The notebook puts two heads side by side with `torch.cat`. Which `dim` does it take there?",
        "`torch.cat` takes the whole list, and `dim=-1` is the last dimension.",
    ],
    why="`torch.cat` along the last dimension leaves sentences and tokens in place and lines up the heads' "
    "columns. Nothing is mixed, so whatever reads the context can tell the heads apart.",
    moral="The wrapper's `forward` does the same once its heads have run.",
)


def wrapper_of_width(d_in, width, context_length, num_heads):
    """MultiHeadAttentionWrapper whose output is `width` wide; ValueError if there is none."""
    if width % num_heads != 0:
        raise ValueError(f"num_heads must divide width, got num_heads={num_heads}, width={width}")
    return MultiHeadAttentionWrapper(d_in, width // num_heads, context_length, 0.0, num_heads)


def wrapper_facts(build, d_in, width, context_length, num_heads):
    """What a wrapper is like, and what it makes of ones if all that it trains is 1."""
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
        facts["context_length"] = wrapper.heads[0].context_length
        facts["output"] = wrapper(torch.ones(2, facts["context_length"], wrapper.heads[0].d_in))
        facts["number of heads"] = len(wrapper.heads)
    return facts


WIDTHS = [(3, 2, 6, 2), (4, 6, 5, 3), (2, 5, 3, 1), (1, 4, 2, 4), (5, 12, 1, 2), (3, 5, 4, 2), (3, 2, 4, 4)]

width_from_heads = Exercise(
    name="width_from_heads",
    imports="from attention_helpers import MultiHeadAttentionWrapper",
    title="Two heads, width 2 in all",
    prompt="Make a `MultiHeadAttentionWrapper` without dropout or biases, with `num_heads` heads, whose "
    "output is `width` wide in all: say, width 2 from two heads. Where `num_heads` does not divide `width`, "
    "raise a `ValueError` that says so.",
    solution=wrapper_of_width,
    cases=lambda generator: list(WIDTHS),
    call=wrapper_facts,
    mistakes=[
        "gives every head the whole width",
        (
            "gives every head the whole width, after the check",
            "width // num_heads",
            "width",
            "The `ValueError` is right. But `d_out` is the width of each head: your output is too wide.",
        ),
        (
            "makes one head of the whole width",
            "width // num_heads, context_length, 0.0, num_heads",
            "width, context_length, 0.0, 1",
            "The width is right, but all of it comes from one head, and `num_heads` heads were asked for.",
        ),
        (
            "rounds where the heads do not divide the width",
            "width % num_heads != 0",
            "False",
            "Where `num_heads` does not divide `width`, `//` rounds down without a word. Check that first.",
        ),
    ],
    hints=[
        "How wide is the wrapper's output? Look at the comment in its `forward`.",
        "The output is `num_heads * d_out` wide. Which `d_out` makes that `width`, and is it a whole number?",
        "Raise the error if `width % num_heads != 0`. Otherwise `d_out` is `width // num_heads`.",
    ],
    why="The wrapper puts `num_heads` contexts of width `d_out` side by side, so `d_out` is "
    "`width / num_heads`, if that is a whole number. `//` alone would round down and hide the mistake.",
    moral="In notebook 06 `d_out` is the width in all, and the class divides by itself.",
)


@width_from_heads.mistake
def gives_every_head_the_whole_width(d_in, width, context_length, num_heads):
    """`d_out` is the width of each head: your output is too wide. (And where is the `ValueError`?)"""
    return MultiHeadAttentionWrapper(d_in, width, context_length, 0.0, num_heads)


def parameters_of_wrapper(d_in, d_out, context_length, num_heads, qkv_bias):
    """How many numbers a MultiHeadAttentionWrapper with these arguments trains."""
    of_one_matrix = d_in * d_out
    if qkv_bias:
        of_one_matrix = of_one_matrix + d_out
    return num_heads * 3 * of_one_matrix


parameters_of_heads = Exercise(
    name="parameters_of_heads",
    title="How many parameters?",
    prompt="Count the numbers that a `MultiHeadAttentionWrapper` trains, by arithmetic, not by building one. "
    "The arguments mean what they mean there (`qkv_bias` is `True` or `False`); you may not need them all.",
    solution=parameters_of_wrapper,
    cases=lambda generator: [(3, 2, 6, 2, False), (3, 2, 6, 2, True), (5, 1, 4, 3, True), (1, 4, 2, 1, True)],
    mistakes=[
        (
            "takes d_out for the width of all heads",
            "num_heads * 3",
            "3",
            "That is one head. `d_out` is the width of each head, and each has matrices of its own.",
        ),
        (
            "counts one matrix a head",
            " * 3",
            "",
            "You count one matrix a head. What makes its queries, its keys, its values?",
        ),
        (
            "leaves the biases out",
            "if qkv_bias",
            "if False",
            "Right without biases. With `qkv_bias=True` each `nn.Linear` trains a bias too.",
        ),
        (
            "always counts the biases",
            "if qkv_bias",
            "if True",
            "Right with biases. With `qkv_bias=False` there are none.",
        ),
        (
            "counts one bias a head",
            "3 * of_one_matrix",
            "(3 * d_in * d_out + d_out * qkv_bias)",
            "Right without biases. You count one bias a head, but each matrix of a head has its own.",
        ),
        (
            "counts the masks",
            "3 * of_one_matrix",
            "(3 * of_one_matrix + context_length**2)",
            "You count the masks too. A mask is a buffer: it moves with the layer, and is not trained.",
        ),
    ],
    hints=[
        "Start with one head without biases: how many matrices does it have, and how many entries has each?",
        "A matrix has `d_in * d_out` entries and, if asked for, a bias of `d_out` numbers. A head has three.",
        "With biases it is `num_heads * 3 * (d_in * d_out + d_out)`. And without?",
    ],
    why="Each head has its own `W_query`, `W_key` and `W_value`, each with `d_in * d_out` entries and, if "
    "asked for, `d_out` biases. The mask is a buffer, so `context_length` does not matter.",
    moral="A longer context costs no parameters here.",
)


def look_up_both(wrapper, n):
    """Set all matrices of a wrapper with two heads, d_in = 4 * n, d_out = n and no biases."""
    person, drink, first, second = torch.eye(4 * n).split(n)
    with torch.no_grad():
        for head, asked in ((wrapper.heads[0], first), (wrapper.heads[1], second)):
            head.W_query.weight.copy_(100 * asked)
            head.W_key.weight.copy_(person)
            head.W_value.weight.copy_(drink)


def questions(generator, b, n):
    """(b, n + 1, 4 * n): b times n people with a drink each, in random order, and a token that asks."""
    x = torch.zeros(b, n + 1, 4 * n)
    for sentence in x:
        person, drink, first, second = sentence.split(n, dim=-1)  # views: (n + 1, n) each
        person[:n] = torch.eye(n)[torch.randperm(n, generator=generator)]
        drink[:n] = torch.randn(n, n, generator=generator)
        one, other = torch.randperm(n, generator=generator)[:2]
        first[n, one] = second[n, other] = 1
    return x


def last_contexts(program, x):
    """The shapes of the matrices that an answer has set and, if they fit, the context of the last token."""
    torch.default_generator.manual_seed(0)  # for matrices that were not set
    n = x.shape[-1] // 4
    wrapper = MultiHeadAttentionWrapper(4 * n, n, context_length=n + 1, dropout=0.0, num_heads=2)
    program(wrapper, n)
    facts = {name: torch.zeros(matrix.shape) for name, matrix in wrapper.named_parameters()}
    fit = all(zeros.shape == (n, 4 * n) for zeros in facts.values())
    return facts | {"last context": wrapper(x)[:, -1] if fit else None}


two_lookups = Exercise(
    name="two_lookups",
    title="Two heads, two look-ups",
    prompt='Answer "Ann, then Bob" with real heads. A token has four parts of `n` numbers: who it is, its '
    "drink, whom it asks for first, and second (people one-hot, unused parts 0). Only the last token asks. "
    "Set `W_query`, `W_key`, `W_value`: its context must be the first drink, then the second, within 0.001.",
    solution=look_up_both,
    cases=lambda generator: [(questions(generator, b, n),) for b, n in ((4, 3), (3, 2), (2, 6))],
    call=last_contexts,
    tolerance=1e-3,
    stub='''
def look_up_both(wrapper, n):
    """Set all matrices of a wrapper with two heads, d_in = 4 * n, d_out = n and no biases."""
    # Each is (n, 4 * n): a matrix that holds one of them cuts that part out of a token.
    # Scores of 0 and 1 make nearly even shares; 100 times a part makes the softmax sharp.
    person, drink, first, second = torch.eye(4 * n).split(n)
    with torch.no_grad():
        ...  # your code, for both heads: wrapper.heads[0].W_query.weight.copy_(...) and so on
''',
    mistakes=[
        (
            "forgets to make the softmax sharp",
            "100 * asked",
            "asked",
            "The right parts in the right places. But your scores lie close together: nearly even shares.",
        ),
        (
            "asks for both in each head",
            "100 * asked",
            "100 * (first + second)",
            "Each head asks for both, and hands out one mixture: which came first is lost. Use two heads.",
        ),
        (
            "asks for the first in both heads",
            "(wrapper.heads[1], second)",
            "(wrapper.heads[1], first)",
            "Both heads look up the person asked for first. What should differ between the two?",
        ),
        (
            "exchanges the heads",
            "(wrapper.heads[0], first), (wrapper.heads[1], second)",
            "(wrapper.heads[1], first), (wrapper.heads[0], second)",
            "Both drinks are there, in the wrong order: the first head's context comes first.",
        ),
        (
            "exchanges queries and keys",
            "W_query.weight.copy_(100 * asked)\n            head.W_key",
            "W_key.weight.copy_(100 * asked)\n            head.W_query",
            "You exchanged queries and keys: the last token is nobody, so its query and its scores are 0.",
        ),
        (
            "hands out the person",
            "copy_(drink)",
            "copy_(person)",
            "Your heads look at the right people, but hand out who they are. What was asked for?",
        ),
    ],
    hints=[
        "In each head: which part of the last token makes the query, which part of the others key and value?",
        "Keys are `person`, values `drink` in both heads. Queries: `first` in one, `second` in the other.",
        "Make the queries large, for a sharp softmax: `wrapper.heads[0].W_query.weight.copy_(100 * first)`.",
    ],
    why="A score is large only where `person` is the one asked for, and the factor 100 gives that one nearly "
    "the whole share. Each head has a row of weights of its own, so the two drinks arrive apart.",
    moral="Two rows of weights pass on two answers. You set these matrices; training has to find them.",
)

EXERCISES = [heads_side_by_side, width_from_heads, parameters_of_heads, two_lookups]
progress = Progress(EXERCISES)
