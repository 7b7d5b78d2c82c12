"""Exercises of notebook 01: from dot products to context vectors, and the digit that a question reads."""
# After a change: make exercises, then make refresh NOTEBOOK="01 help"

import torch

from .base import Exercise, Progress, normal


def weights_for_query(query, inputs):
    """Weights (n,) of one query (d,) over the rows of inputs (n, d)."""
    scores = inputs @ query  # (n,)
    exponentials = scores.exp()
    return exponentials / exponentials.sum()


one_query = Exercise(
    name="one_query",
    title="The weights of one query",
    prompt="Write both steps for any query: its scores with all rows of `inputs`, then its weights. Use `x.exp()`, "
    "which works entry by entry, and `x.sum()`.",
    solution=weights_for_query,
    cases=lambda g: [normal(g, d, (n, d)) for n, d in ((6, 3), (1, 4), (5, 1), (9, 7))],
    mistakes={
        ("divides the scores by their sum", "scores.exp()", "scores"): """
            Your weights are the scores divided by their sum. But a score can be negative, and then its weight is, too.
            What does softmax do to every score before it divides?""",
        ("stops at the scores", "return exponentials / exponentials.sum()", "return scores"): """
            These are the scores. How do you turn them into weights, which are positive and sum to 1?""",
        ("doesn't divide by the sum", " / exponentials.sum()", ""): """
            The exponentials are right, but they don't sum to 1 yet.""",
        ("multiplies without adding up", "inputs @ query", "inputs * query"): """
            You multiply entry by entry, which is half of a dot product. Which operator also adds the products up?""",
        ("scales the scores", "scores.exp()", "(scores / len(query) ** 0.5).exp()"): """
            You divide the scores by a root. That comes in the next notebook. What's a score here?""",
        ("goes on to the context vector", "exponentials.sum()", "exponentials.sum() @ inputs"): """
            You've gone one step too far: this is the context vector. Which numbers did you average the tokens with?""",
    },
    hints=[
        "You've seen all scores of `B ?` computed in one product. Here the query can be any vector.",
        "Take the exponential of each score. What do you have to divide them by, so that they sum to 1?",
        "The scores are `inputs @ query`, and the weights are `scores.exp() / scores.exp().sum()`.",
    ],
    why="Each score is one dot product, and softmax turns scores of any sign into weights that are positive and sum "
    "to 1.",
    moral="That's all that one query needs: a product and a softmax.",
)


def all_contexts(inputs):
    """Context vectors (n, d) of all tokens of inputs (n, d)."""
    return torch.softmax(inputs @ inputs.T, dim=-1) @ inputs


contexts_at_once = Exercise(
    name="contexts_at_once",
    title="All contexts at once",
    prompt="Compute the context vectors of all tokens of `inputs` at once, without a loop.",
    solution=all_contexts,
    cases=lambda g: [normal(g, (n, d)) for n, d in ((6, 3), (1, 2), (4, 4), (3, 8))],
    mistakes={
        ("averages by columns", "dim=-1", "dim=0"): """
            The columns of your weights sum to 1, but row i holds the weights of query i. Which sums should be 1?""",
        ("forgets the softmax", "torch.softmax(inputs @ inputs.T, dim=-1)", "inputs @ inputs.T"): """
            You average the inputs with raw scores. Which step is missing between the scores and the average?""",
        ("stops at the weights", ", dim=-1) @ inputs", ", dim=-1)"): """
            These are the weights, one row per query. What do you average with them?""",
        ("scales the scores", "inputs.T", "inputs.T / inputs.shape[1] ** 0.5"): """
            You divide the scores by the square root of the width. That's a good idea, but it comes in the next
            notebook. Here the scores are plain dot products.""",
        (
            "takes one softmax over the complete matrix",
            "inputs @ inputs.T, dim=-1)",
            "(inputs @ inputs.T).flatten(), 0).view(len(inputs), -1)",
        ): """
            All your weights together sum to 1. But each query has weights of its own, so what should each row sum
            to?""",
    },
    hints=[
        "There are three steps: scores (n, n), weights (n, n), and context vectors (n, d). Which of them do you have?",
        "`inputs @ inputs.T` has the score of query i with key j in row i and column j. Which dimension belongs to "
        "the keys?",
        "Apply softmax with `dim=-1`, then multiply the weights by the inputs.",
    ],
    why="Softmax over the last dimension turns each query's row of scores into weights that sum to 1, and the second "
    "product averages the inputs with them.",
    moral="Two matrix products and a softmax are simple self-attention.",
)


def digits_that_it_reads(inputs):
    """What the last token of inputs (n, 7) reads of 1, 2 and 3: (3,)."""
    scores = inputs @ inputs[-1]  # (n,)
    weights = torch.softmax(scores, dim=0)  # (n,)
    context = weights @ inputs  # (7,)
    return context[3:6]


def draw_lookup_sentences(generator):
    """Sentences with 2 to 5 pairs, a letter perhaps twice, and a question that asks for one of the letters."""
    for pairs in (3, 2, 5, 4):
        letters, digits = torch.randint(3, (2, pairs), generator=generator)
        inputs = torch.zeros(pairs + 1, 7)
        inputs[range(pairs), letters] = 1
        inputs[range(pairs), 3 + digits] = 1
        inputs[-1, letters[0]] = 1
        inputs[-1, 6] = 1
        yield (inputs,)


read_the_digit = Exercise(
    name="read_the_digit",
    title="Which digit does the question read?",
    prompt="The last token of a lookup sentence is the question. Compute its context vector from the embeddings "
    "(dot products, then softmax), and return its entries for the digits 1, 2 and 3. As above, the entries "
    "are A, B, C, 1, 2, 3 and `?`. But sentences can have any number of tokens.",
    solution=digits_that_it_reads,
    cases=draw_lookup_sentences,
    mistakes={
        ("takes the first token as the query", "inputs[-1]", "inputs[0]"): """
            Your query is the first token. Where's the question?""",
        ("fixes the question's position", "inputs[-1]", "inputs[3]"): """
            That works for four tokens only, because the question isn't always token 3. Is a 3 written in your code?""",
        ("reads the letters", "[3:6]", "[:3]"): "These are the letters A, B and C. At which entry do the digits begin?",
        ("leaves the digit 3 out", "[3:6]", "[3:5]"): """
            Your slice ends at entry 4, because Python leaves out the number after the colon. Where's the digit 3?""",
        ("forgets the softmax", "torch.softmax(scores, dim=0)", "scores"): """
            You add the embeddings up with raw scores. Which step makes weights of them?""",
        ("returns the complete context vector", "[3:6]", ""): """
            The context vector is right. Which of its entries are digits?""",
        ("stops at the weights", "return context[3:6]", "return weights"): """
            These are the weights, one per token. The digits are in the embeddings, so what do you do with the
            weights?""",
    },
    hints=[
        "The question is the last token, `inputs[-1]`. What are its scores with all the tokens, itself included?",
        "Turn the scores into weights, average all the embeddings with them, and then pick entries of the average.",
        "The digits are `context[3:6]`, where `context = torch.softmax(inputs @ inputs[-1], dim=0) @ inputs`.",
    ],
    why="Pairs with the question's letter score 1 and the other pairs 0, so the digits of the first kind get the "
    "largest weights among the pairs, which the context vector adds up digit by digit.",
    moral="In the notebook's sentence that's 0.2245 for the digit 1 and 0.0826 for the others. The next notebook does "
    "better.",
)

EXERCISES = [one_query, contexts_at_once, read_the_digit]
progress = Progress(EXERCISES)
