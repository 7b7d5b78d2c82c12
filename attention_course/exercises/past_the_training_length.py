"""Exercises of notebook 11: rotary positions and their scaling."""

import torch

from attention_helpers.modern.positions import rope_frequencies

from .base import Exercise, Progress, exercises_in


def rotate_pairs(x, positions, base):
    """x (num_tokens, head_dim), rotated by their positions (num_tokens,)."""
    head_dim = x.shape[1]
    rotated = torch.empty_like(x)
    for pair in range(head_dim // 2):
        angles = positions * base ** (-2 * pair / head_dim)  # (num_tokens,)
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
    title="Rotate by hand",
    prompt="Pair i holds the neighbours `x[:, 2 * i]` and `x[:, 2 * i + 1]`. Rotate it, as a point (a, b), by "
    "`position * base ** (-2 * i / head_dim)` radians, to (a cos − b sin, a sin + b cos). Return a new tensor.",
    solution=rotate_pairs,
    cases=tokens_in_places,
    tolerance=1e-4,
    mistakes={
        ("angles = positions", "angles = -positions"): "You rotate clockwise. A model trained like that would be as "
        "good, but the weights of a published one would give other scores. Which of the two sines has the minus?",
        pairs_the_halves: "You pair entry i with entry i + head_dim / 2. That's the half-split layout, which many "
        "models use. Which entries make a pair here?",
        (" * base ** (-2 * pair / head_dim)", ""): "All your pairs rotate by the same angle, but each should be slower "
        "than the one before. What does i do in the exponent?",
        ("angles = positions", "angles = torch.arange(len(x))"): "You count the rows from 0, but a row's token can be "
        "anywhere in the text. Which argument says where?",
        ("rotated = torch.empty_like(x)", "rotated = x = x.clone()"): "The first entry of each pair is right. When you "
        "compute the second, is the first one still what it was?",
        ("-2 * pair", "-pair"): "Your exponent is -i / head_dim, so your pairs are too fast. What's in front of i?",
        ("-2 * pair", "2 * pair"): "Your exponent is positive, so each pair is faster than the one before. Which sign "
        "should it have?",
        ("angles = positions", "angles = torch.pi / 180 * positions"): "You turn degrees into radians, but the angles "
        "are radians already. What do `cos` and `sin` expect?",
        ("return rotated", "return torch.cat((rotated[:, 0::2], rotated[:, 1::2]), dim=1)"): "The rotation is right, "
        "but your result has all the first entries of the pairs, and then all the second ones. Where were they in x?",
        ("- b * angles.sin()", "+ b * angles.sin()"): "Both of your sines have a plus. Which of them needs a minus?",
    },
    heading="11#How-does-a-layer-know-how-far-apart-two-tokens-are?",
    hints={
        "angles": "`angles = positions * base ** (-2 * i / head_dim)` has one number per token, like a column of x.",
        "result": "Loop over `range(head_dim // 2)`, and write both results into `torch.empty_like(x)`: which two "
        "columns is pair i?",
    },
    why="A rotation keeps a pair's length and only adds to its angle, by more at each position.",
    moral="If queries and keys are rotated like this, their scores depend on how far apart two tokens are.",
)


def scale_frequencies(frequencies, factor, original, low, high):
    """New frequencies (pairs,), radians per token; all others are numbers."""
    turns = original * frequencies / (2 * torch.pi)  # in the original length
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / factor)


scaled_frequencies = Exercise(
    title="Llama 3's rule for long texts",
    prompt="In a text of `original` tokens, a pair completes `original * frequency / (2 * torch.pi)` turns. If that's "
    "at most `low`, divide its frequency by `factor`. If it's at least `high`, keep it. In between, mix both: the kept "
    "one's share is 0 at `low`, 1 at `high`, and half way in between 0.5.",
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
        ("keep = ((turns - low) / (high - low)).clamp(0, 1)", "keep = 0 * turns"): "You divide every frequency, which "
        "is linear scaling. Which pairs tell neighbouring tokens apart, and should stay as they are?",
        ("(keep + (1 - keep) / factor)", "(1 - keep + keep / factor)"): "You divide the fast pairs and keep the slow "
        "ones. Which of them meet angles they've never seen?",
        (" / (2 * torch.pi)", ""): "You compare radians with turns. How many radians are in one turn?",
        (".clamp(0, 1)", ""): "Between `low` and `high` you're right, but your share goes below 0 and above 1. What "
        "should it be there?",
        ("((turns - low) / (high - low)).clamp(0, 1)", "(turns > low).to(frequencies.dtype)"): "Slow and fast pairs "
        "are right, but there's a jump from one to the next. What should happen between `low` and `high`?",
        ("original *", "factor * original *"): "You count the turns in the long text. In which one did the model "
        "learn, and which angles did it meet there?",
        ("frequencies * (keep + (1 - keep) / factor)", "frequencies / (keep + (1 - keep) * factor)"): "At both ends "
        "you're right, but in between you mix wavelengths. Which two numbers does the prompt mix?",
        ("/ factor", "* factor"): "You multiply the slow pairs' frequencies. Should a slow pair become faster?",
    },
    heading="11#Can-we-slow-the-pairs-down-by-a-rule?",
    hints={
        "turns": "First count the turns of each pair in a text of `original` tokens.",
        "keep": "`keep = ((turns - low) / (high - low)).clamp(0, 1)` is 0 for slow pairs and 1 for fast ones.",
        "result": "`frequencies * (keep + (1 - keep) / factor)` adds both shares.",
    },
    why="A pair that completes several turns in training has shown the model all its angles. A slower pair would "
    "reach new ones.",
    moral="Llama 3.1 uses this with a factor of 8, and the ends 1 and 4.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
