"""Exercises of notebook 11: rotary positions, their scaling, and a penalty for distance."""
# After a change: make exercises, then make refresh NOTEBOOK=11

import torch

from attention_helpers.modern.positions import rope_frequencies

from .base import Exercise, Progress


def rotate_pairs(x, positions, base):
    """x (num_tokens, head_dim), its pairs rotated by their tokens' positions (num_tokens,)."""
    head_dim = x.shape[1]
    rotated = torch.empty_like(x)
    for pair in range(head_dim // 2):
        angles = positions * base ** (-2 * pair / head_dim)  # (num_tokens,), radians
        a, b = x[:, 2 * pair], x[:, 2 * pair + 1]
        rotated[:, 2 * pair] = a * angles.cos() - b * angles.sin()
        rotated[:, 2 * pair + 1] = a * angles.sin() + b * angles.cos()
    return rotated


def tokens_in_places(generator):
    """Rows, their positions (not always from 0, not always in order) and a base."""
    shapes = [(4, 6, 100.0, 0), (1, 2, 10_000.0, 3), (5, 8, 10_000.0, 7), (3, 4, 50.0, 2)]
    return [
        (torch.randn(n, width, generator=generator), start + torch.randperm(n, generator=generator), base)
        for n, width, base, start in shapes
    ]


def pairs_the_halves(x, positions, base):
    order = torch.arange(x.shape[1]).view(2, -1).T.flatten()  # entry i next to entry i + head_dim / 2
    return rotate_pairs(x[:, order], positions, base)[:, order.argsort()]


turning = Exercise(
    name="turning",
    title="Rotate by hand",
    prompt="Pair i holds the neighbours `x[:, 2 * i]` and `x[:, 2 * i + 1]`. Rotate it, as a point (a, b), by "
    "`position * base ** (-2 * i / head_dim)` radians, to (a cos − b sin, a sin + b cos). Return a new tensor.",
    solution=rotate_pairs,
    cases=tokens_in_places,
    tolerance=1e-4,
    mistakes={
        ("rotates the other way round", "angles = positions", "angles = -positions"): """
            You rotate clockwise. A model trained like that would be as good, but the weights of a published one would
            give other scores. Which of the two sines has the minus?""",
        ("pairs the halves", pairs_the_halves): """
            You pair entry i with entry i + head_dim / 2. That's the half-split layout, which many models use. Which
            entries make a pair here?""",
        ("rotates all pairs alike", " * base ** (-2 * pair / head_dim)", ""): """
            All your pairs rotate by the same angle, but each should be slower than the one before. What does i do in
            the exponent?""",
        ("counts the rows for positions", "angles = positions", "angles = torch.arange(len(x))"): """
            You count the rows from 0, but a row's token can be anywhere in the text. Which argument says where?""",
        ("reads what it has just written", "rotated = torch.empty_like(x)", "rotated = x = x.clone()"): """
            The first entry of each pair is right. When you compute the second, is the first one still what it was?""",
    },
    hints=[
        "Start with one pair: which two columns is it, and what's the angle of each token?",
        "`angles = positions * base ** (-2 * i / head_dim)` has one number per token, like a column of x.",
        "In a loop over `range(head_dim // 2)`: `a, b = x[:, 2 * i], x[:, 2 * i + 1]`, then write "
        "`a * angles.cos() - b * angles.sin()` and `a * angles.sin() + b * angles.cos()` into a new tensor.",
    ],
    why="A rotation keeps each pair's length and adds to its angle, so a dot product of two rotated pairs depends "
    "only on their distance, besides the pairs themselves.",
    moral="If queries and keys are rotated like this, their scores depend on how far apart two tokens are.",
)


def scale_frequencies(frequencies, factor, original, low, high):
    """New frequencies (pairs,), in radians per token; the other arguments are numbers."""
    turns = original * frequencies / (2 * torch.pi)  # in a text of the original length
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / factor)


scaled_frequencies = Exercise(
    name="scaled_frequencies",
    title="Llama 3's rule for long texts",
    prompt="In a text of `original` tokens, a pair completes `original * frequency / (2 * torch.pi)` turns. If that's "
    "at most `low`, divide its frequency by `factor`. If it's at least `high`, keep it. In between, the share of the "
    "kept frequency grows from 0 to 1, evenly with the turns.",
    solution=scale_frequencies,
    cases=lambda g: [
        (rope_frequencies(width, base).float(), factor, original, low, high)
        for width, base, factor, original, low, high in (
            (128, 500_000, 8.0, 8192, 1.0, 4.0),
            (64, 500_000, 32.0, 8192, 1.0, 4.0),
            (16, 10_000, 4.0, 512, 2.0, 16.0),
        )
    ],
    mistakes={
        ("scales all pairs alike", "keep = ((turns - low) / (high - low)).clamp(0, 1)", "keep = 0 * turns"): """
            You divide every frequency, which is linear scaling. Which pairs tell neighbouring tokens apart, and should
            stay as they are?""",
        ("divides the fast pairs", "(keep + (1 - keep) / factor)", "(1 - keep + keep / factor)"): """
            You divide the fast pairs and keep the slow ones. Which of them meet angles they've never seen?""",
        ("forgets 2 pi", " / (2 * torch.pi)", ""): "You compare radians with turns. How many radians are in one turn?",
        ("doesn't stop at the ends", ".clamp(0, 1)", ""): """
            Between `low` and `high` you're right, but your share goes below 0 and above 1. What should happen
            there?""",
        ("doesn't blend", "((turns - low) / (high - low)).clamp(0, 1)", "(turns > low).to(frequencies.dtype)"): """
            Slow and fast pairs are right, but there's a jump from one to the next. What should happen between `low` and
            `high`?""",
    },
    hints=[
        "First count the turns of each pair. Which pairs turn most often?",
        "`keep = ((turns - low) / (high - low)).clamp(0, 1)` is 0 for slow pairs and 1 for fast ones.",
        "`frequencies * (keep + (1 - keep) / factor)` adds both shares.",
    ],
    why="A pair that completes several turns in training has shown the model all its angles, but one that doesn't "
    "would reach new angles in a longer text, unless it's slowed down.",
    moral="Llama 3.1 uses this with a factor of 8, and the ends 1 and 4.",
)


def alibi(queries, keys):
    """Weights (num_heads, num_tokens, num_tokens); queries and keys (num_heads, num_tokens, head_dim)."""
    num_heads, num_tokens, head_dim = queries.shape
    n = 2 ** (num_heads.bit_length() - 1)  # the largest power of two that isn't above num_heads
    heads = torch.cat((torch.arange(1, n + 1), torch.arange(1, num_heads - n + 1) - 0.5))
    slopes = 2.0 ** (-8 * heads / n)  # (num_heads,)
    positions = torch.arange(num_tokens)
    distances = positions[:, None] - positions  # (num_tokens, num_tokens), below 0 in the future
    scores = queries @ keys.transpose(1, 2) / head_dim**0.5  # scaled first
    scores = scores - slopes[:, None, None] * distances
    return torch.softmax(scores.masked_fill(distances < 0, -torch.inf), dim=-1)


distance_bias = Exercise(
    name="distance_bias",
    title="A penalty for distance",
    prompt="ALiBi ([Press et al. 2021](https://arxiv.org/abs/2108.12409)) subtracts a slope times the distance from "
    "each *scaled* score. The first n heads, with n the largest power of two that isn't above their number, have the "
    "slopes `2 ** (-8 * h / n)` for h = 1 to n. If there are more heads, their h are 0.5, 1.5, 2.5 and so on, in the "
    "same formula. Return the causal weights.",
    solution=alibi,
    cases=lambda g: [
        tuple(2 * torch.randn(2, *shape, generator=g))
        for shape in ((2, 5, 4), (8, 6, 3), (1, 4, 2), (4, 1, 5), (3, 4, 3), (6, 3, 2))
    ],
    mistakes={
        ("scales the penalty too", " * distances", " * distances / head_dim**0.5"): """
            Your penalty is divided by the root of head_dim, like the scores. Which comes first, scaling or
            subtracting?""",
        ("takes n heads for any number", "n = 2 ** (num_heads.bit_length() - 1)", "n = num_heads"): """
            Right for 1, 2, 4 or 8 heads. What's n for 6 heads, and which slopes do heads 5 and 6 get?""",
        ("adds the penalty", "scores - slopes", "scores + slopes"): """
            You add slope times distance, so your heads prefer tokens that are far away. Which should get less?""",
        ("shows the future", "scores.masked_fill(distances < 0, -torch.inf)", "scores"): """
            Your tokens read the future, where distances are negative. What should softmax get there?""",
        ("forgets to scale", " / head_dim**0.5", ""): """
            The penalty is right, but your scores aren't scaled. What are they divided by?""",
    },
    hints=[
        "There are three steps: scaled scores, minus slope times distance, then mask and softmax.",
        "`positions[:, None] - positions` has all distances, and slopes need the shape (num_heads, 1, 1). For n, "
        "`num_heads.bit_length()` helps.",
        "`queries @ keys.transpose(1, 2) / head_dim**0.5 - slopes[:, None, None] * distances`, then hide where "
        "`distances < 0`.",
    ],
    why="The penalty is part of what softmax gets, so each token of distance divides a weight by e ** slope before "
    "the row is normalized.",
    moral="Steep heads look nearby and flat heads far, without any rotation. `attention_weights(scores + bias, mask, "
    "scale)` would scale the bias, too.",
)


EXERCISES = [turning, scaled_frequencies, distance_bias]
progress = Progress(EXERCISES)
