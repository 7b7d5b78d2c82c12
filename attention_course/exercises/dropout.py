"""Exercises of notebook 04: a random mask, and the factor that keeps the mean."""

import torch

from .base import Exercise, Progress, exercises_in


def random_weights(generator, *shape):
    """Weights of a causal layer, if the shape is square."""
    scores = 1.5 * torch.randn(*shape, generator=generator)
    future = torch.ones(shape).triu(diagonal=1).bool() & (shape[-1] == shape[-2])
    return torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)


def random_mask(weights, p):
    """Boolean, of the shape of weights: True where a weight is kept."""
    draws = torch.rand(weights.shape)
    return draws < 1 - p


a_random_mask = Exercise(
    title="A random mask",
    prompt="Draw a number between 0 and 1 for each weight, with a single call of `torch.rand`, and keep the weight if "
    "its number is below 1 - p.",
    solution=random_mask,
    cases=lambda g: [
        (random_weights(g, *shape), p) for *shape, p in ((6, 6, 0.2), (3, 5, 0.7), (1, 8, 0.5), (2, 3, 4, 0.1))
    ],
    mistakes={
        ("< 1 - p", ">= 1 - p"): "Your mask is True where a weight is dropped. What should True mean here?",
        ("< 1 - p", "< p"): "You keep where draw < p, so with probability p. How often should a weight be dropped?",
        ("< 1 - p", "> p"): "You keep where draw > p. That keeps as many, but not the same ones. How does the prompt "
        "compare?",
        ("torch.rand(", "torch.randn("): "`torch.randn` draws from a normal distribution, so many numbers are below 0 "
        "and are always kept. Which function draws between 0 and 1?",
        ("weights.shape", "(*weights.shape[:-1], 1)"): "You draw one number per row, so a query keeps all of its "
        "weights or none. How many draws do you need?",
        ("weights.shape", "weights.shape[-1]"): "You draw once per column, so all queries keep the same keys. How many "
        "draws do you need?",
        ("1 - p", "(1 - p) * (weights > 0)"): "You never keep a weight that's 0 already. What should decide?",
    },
    heading="04#How-do-we-drop-attention-weights?",
    hints={
        "draws": "`torch.rand(shape)` draws. Which shape gives each weight a number of its own?",
        "result": "Compare the draws with `1 - p`: `draws < 1 - p` is True or False for each of them.",
    },
    why="A number that's uniform between 0 and 1 is below 1 - p with probability 1 - p.",
    moral="The next cells use your mask.",
)


def dropped_by_hand(weights, keep, p):
    """Weights after dropout; keep is boolean, of the shape of weights."""
    kept = weights * keep
    return kept / (1 - p)


def given_masks(generator):
    for shape, p in (((6, 6), 0.2), ((4, 7), 0.5), ((1, 5), 0.8), ((3, 1), 0.4), ((2, 3, 4), 0.1)):
        keep = torch.rand(*shape, generator=generator) < 1 - p
        keep[..., 0] = True  # so that no row is 0/0 for those who divide by its sum
        yield random_weights(generator, *shape), keep, p


dropout_by_hand = Exercise(
    title="Keep the mean",
    prompt="The mask is drawn already. Set to 0 what isn't kept, and scale up the rest, so that each weight keeps "
    "its mean over many masks. `p`, below 1, is the probability that a weight is dropped.",
    solution=dropped_by_hand,
    cases=given_masks,
    mistakes={
        (" / (1 - p)", ""): "The right weights are dropped, but the others didn't grow, so the mean of each weight "
        "shrinks. How large must a weight be when it survives?",
        ("(1 - p)", "p"): "You divide by p, the probability of being dropped. What's the probability of surviving? (At "
        "p = 0.5 you can't tell the two apart.)",
        ("/ (1", "* (1"): "Your survivors shrink. Shouldn't they make up for the masks in which they're dropped?",
        ("* keep", "* ~keep"): "You drop where `keep` is True, which in a causal mask means hidden. What does it mean "
        "here?",
        ("(1 - p)", "kept.sum(dim=-1, keepdim=True)"): "You divide each row by its sum, so each row has a factor of "
        "its own. After dropout a row can sum to more or less than 1, because only the mean over many masks stays. "
        "Which factor depends on p only?",
        ("(1 - p)", "keep.float().mean()"): "You divide by the share that this mask kept. Which factor depends on p "
        "only?",
        ("(1 - p)", "keep.float().mean(dim=-1, keepdim=True)"): "You divide by the share that was kept in each row. "
        "Which factor depends on p only?",
        ("/ (1 - p)", "* (1 + p)"): "You multiply by 1 + p. How often does a weight survive, and what makes up for "
        "that?",
        ("weights * keep", "weights"): "You scale all the weights, and none becomes 0. What if `keep` is False?",
    },
    heading="04#How-do-the-weights-keep-their-mean?",
    hints={
        "kept": "First set to zero what isn't kept: `weights * keep` is 0 where `keep` is False.",
        "result": "A weight survives with probability 1 - p. By which factor must it grow so that its mean stays the "
        "same?",
    },
    why="With probability 1 - p a weight w becomes w / (1 - p), otherwise 0, so its mean is w.",
    moral="`Dropout` does the same with a mask that it draws itself.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
