"""Exercises of notebook 01: from dot products to context vectors, and the digit that a question reads."""

import torch

from .base import Exercise, Progress, exercises_in, normal


def weights_for_query(query, inputs):
    """Weights (n,) of one query (d,) over the rows of inputs (n, d)."""
    scores = inputs @ query  # (n,)
    exponentials = scores.exp()
    return exponentials / exponentials.sum()


one_query = Exercise(
    title="The weights of one query",
    prompt="Write both steps for any query: its scores with all rows of `inputs`, then its weights. Use `x.exp()`, "
    "which works entry by entry, and `x.sum()`.",
    solution=weights_for_query,
    cases=lambda g: [normal(g, d, (n, d)) for n, d in ((6, 3), (1, 4), (5, 1), (9, 7))],
    mistakes={
        ("scores.exp()", "scores"): "Your weights are the scores divided by their sum. But a score can be negative, "
        "and then its weight is, too. What does softmax do to every score before it divides?",
        ("return exponentials / exponentials.sum()", "return scores"): "These are the scores. How do you turn them "
        "into weights, which are positive and sum to 1?",
        (" / exponentials.sum()", ""): "The exponentials are right, but they don't sum to 1 yet.",
        ("exponentials.sum()", "exponentials.max()"): "You divide by the largest exponential, so the largest weight is "
        "1. What should all of them sum to?",
        ("scores.exp()", "(scores / scores.sum()).exp()"): "You divide the scores by their sum before you take "
        "exponentials. Which of the two steps comes first?",
        ("inputs @ query", "inputs * query"): "You multiply entry by entry, which is half of a dot product. Which "
        "operator also adds the products up?",
        ("scores.exp()", "(scores / len(query) ** 0.5).exp()"): "You divide the scores by a root. That comes in the "
        "next notebook. What's a score here?",
        ("exponentials.sum()", "exponentials.sum() @ inputs"): "You've gone one step too far: this is the context "
        "vector. Which numbers did you average the tokens with?",
    },
    heading="01#How-do-scores-become-weights?",
    hints={
        "scores": "You've seen all scores of `B ?` computed in one product. Here the query can be any vector.",
        "exponentials": "Take the exponential of each score.",
        "result": "Divide by the sum: the weights are `scores.exp() / scores.exp().sum()`.",
    },
    why="Each score is one dot product, and softmax turns scores of any sign into weights that are positive and sum "
    "to 1.",
    moral="That's all that one query needs: a product and a softmax.",
)


def all_contexts(inputs):
    """Context vectors (n, d) of all tokens of inputs (n, d)."""
    scores = inputs @ inputs.T
    weights = torch.softmax(scores, dim=-1)
    return weights @ inputs


contexts_at_once = Exercise(
    title="All contexts at once",
    prompt="Compute the context vectors of all tokens of `inputs` at once, without a loop.",
    solution=all_contexts,
    cases=lambda g: [normal(g, (n, d)) for n, d in ((6, 3), (1, 2), (4, 4), (3, 8))],
    mistakes={
        ("weights @", "scores @"): "You average the inputs with raw scores. Which step is missing in between?",
        ("weights @ inputs", "weights"): "These are the weights, one row per query. What do you average with them?",
        ("weights @ inputs", "torch.softmax(scores @ inputs, dim=-1)"): "You average with raw scores and take the "
        "softmax of the result. What should softmax make of the scores?",
        ("inputs.T", "inputs.T / inputs.shape[1] ** 0.5"): "You divide the scores by the square root of the width. "
        "That's a good idea, but it comes in the next notebook. Here the scores are plain dot products.",
        ("scores, dim=-1)", "scores.flatten(), 0).view(len(inputs), -1)"): "All your weights together sum to 1. But "
        "each query has weights of its own, so what should each row sum to?",
    },
    heading="01#All-tokens-at-once",
    hints={
        "scores": "Row i of the scores, (n, n), belongs to query i. One product of two matrices computes them all.",
        "weights": "`inputs @ inputs.T` has query i's score with key j in row i, column j. Which dimension is the "
        "keys'?",
        "result": "Multiply the weights, (n, n), by the inputs, (n, d).",
    },
    why="Softmax over the last dimension turns each query's row of scores into weights that sum to 1, and the second "
    "product averages the inputs with them.",
    moral="It takes two matrix products and a softmax: this is simple self-attention.",
)


def digits_that_it_reads(inputs):
    """What the last token of inputs (n, 7) reads of 1, 2 and 3: (3,)."""
    scores = inputs @ inputs[-1]  # (n,)
    weights = torch.softmax(scores, dim=0)  # (n,)
    context = weights @ inputs  # (7,)
    return context[3:6]


def as_tensor(digits):
    """Three digits in a list, which nothing below the exercise forbids, as a tensor."""
    return torch.stack(digits) if isinstance(digits, list) and all(map(torch.is_tensor, digits)) else digits


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
    title="Which digit does the question read?",
    prompt="The last token of a lookup sentence is the question. Compute its context vector from the embeddings "
    "(dot products, then softmax), and return its entries for the digits 1, 2 and 3. As above, the entries "
    "are A, B, C, 1, 2, 3 and `?`. But sentences can have any number of tokens.",
    solution=digits_that_it_reads,
    cases=draw_lookup_sentences,
    call=lambda answer, inputs: as_tensor(answer(inputs)),
    mistakes={
        ("inputs[-1]", "inputs[0]"): "Your query is the first token. Where's the question?",
        ("inputs[-1]", "inputs[3]"): "That works for four tokens only, because the question isn't always token 3. Is "
        "there a 3 in your code?",
        ("[3:6]", "[:3]"): "These are the letters A, B and C. At which entry do the digits begin?",
        ("[3:6]", "[3:5]"): "Your slice ends at entry 4: Python leaves out the number after the colon. Where's the 3?",
        ("torch.softmax(scores, dim=0)", "scores"): "You average with raw scores. Which step makes weights of them?",
        ("[3:6]", ""): "The context vector is right. Which of its entries are digits?",
        ("return context[3:6]", "return weights"): "These are the weights, one per token. The digits are in the "
        "embeddings, so what do you do with the weights?",
        ("inputs[-1]", "inputs[-1] / inputs.shape[1] ** 0.5"): "You divide the scores by a root. That comes in the "
        "next notebook: here a score is a dot product.",
    },
    heading="01#What-does-the-question-read?",
    hints={
        "scores": "The question is the last token, `inputs[-1]`. What are its scores with all tokens, itself included?",
        "weights": "Turn the scores into weights.",
        "context": "Average all the embeddings with the weights: `weights @ inputs`.",
        "result": "The context vector's entries 3, 4 and 5 are the digits: `context[3:6]`.",
    },
    why="Pairs with the question's letter score 1 and the other pairs 0, so the digits of the first kind get the "
    "largest weights among the pairs, which the context vector adds up digit by digit.",
    moral="In the notebook's sentence that's 0.2245 for the digit 1 and 0.0826 for the others. The next notebook does "
    "better.",
)

EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
