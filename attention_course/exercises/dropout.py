"""Exercises of notebook 04: a random mask, the factor that keeps the mean, dropout in its place, and the row sums."""
# After a change: make exercises, then make refresh NOTEBOOK=04

import torch

from attention_helpers.dropout import Dropout

from .base import Exercise, Progress, normal


def random_weights(generator, *shape):
    return torch.softmax(1.5 * torch.randn(*shape, generator=generator), dim=-1)


def random_mask(weights, p):
    """Boolean and of the shape of weights: True where a weight is kept."""
    return torch.rand(weights.shape, dtype=torch.float64) < 1 - p


a_random_mask = Exercise(
    name="a_random_mask",
    title="A random mask",
    prompt="Draw a number between 0 and 1 for each weight, with a single `torch.rand` in float64, as "
    "the check does (`dtype=torch.float64`), and keep the weight if its number is below 1 - p.",
    solution=random_mask,
    cases=lambda g: [
        (random_weights(g, *shape), p) for *shape, p in ((6, 6, 0.2), (3, 5, 0.7), (1, 8, 0.5), (2, 3, 4, 0.1))
    ],
    mistakes={
        ("is True where a weight is dropped", "< 1 - p", ">= 1 - p"): """
            Your mask is True where a weight is dropped, as in a causal mask. What should True mean here?""",
        ("keeps with probability p", "< 1 - p", "< p"): """
            You keep where draw < p, and so with probability p. Isn't that how often a weight should be dropped?""",
        ("keeps above p", "< 1 - p", "> p"): """
            You keep where draw > p. That keeps as many as it should, but not the same ones. How does the prompt
            compare?""",
        ("draws in float32", ", dtype=torch.float64", ""): """
            Your draws are float32, which is torch's default, and the same seed gives different numbers in float64.
            Which argument sets the type?""",
        ("draws from a normal distribution", "torch.rand(", "torch.randn("): """
            `torch.randn` draws from a normal distribution, so many numbers are below 0 and are always kept. Which
            function draws between 0 and 1?""",
        ("draws once per row", "weights.shape", "(*weights.shape[:-1], 1)"): """
            You draw one number per row, so a query keeps all of its weights or none. How many draws do you need?""",
    },
    hints=[
        "Two steps make one line: draw the numbers, then compare them.",
        "`torch.rand(shape, dtype=torch.float64)` draws. Which shape gives each weight a number of its own?",
        "`weights.shape` is the shape, and `draws < 1 - p` is True or False for each of them.",
    ],
    why="A number that's uniform between 0 and 1 is below 1 - p with probability 1 - p.",
    moral="The next cells use your mask.",
)


def dropped_by_hand(weights, keep, p):
    """Weights (..., num_keys) after dropout; keep is boolean and of the same shape."""
    return weights * keep / (1 - p)


def given_masks(generator):
    for shape, p in (((6, 6), 0.2), ((4, 7), 0.5), ((1, 5), 0.8), ((3, 1), 0.4), ((2, 3, 4), 0.1)):
        keep = torch.rand(*shape, generator=generator) < 1 - p
        keep[..., 0] = True  # so that no row is 0/0 for those who divide by its sum
        yield random_weights(generator, *shape), keep, p


dropout_by_hand = Exercise(
    name="dropout_by_hand",
    title="Keep the mean",
    prompt="The mask is drawn already. Set to 0 what isn't kept, and let the rest grow, so that each weight keeps its "
    "mean over many masks. `p`, below 1, is the probability that a weight is dropped.",
    solution=dropped_by_hand,
    cases=given_masks,
    mistakes={
        ("does not scale", " / (1 - p)", ""): """
            The right weights are dropped, but the others didn't grow, so the mean of each weight shrinks. How large
            must a weight be when it survives?""",
        ("divides by p", "(1 - p)", "p"): """
            You divide by p, the probability of being dropped. What's the probability of surviving? (At p = 0.5 you
            can't tell the two apart.)""",
        ("multiplies by 1 - p", "/ (1 - p)", "* (1 - p)"): """
            Your survivors shrink. Shouldn't they make up for the masks in which they're dropped?""",
        ("drops what should be kept", "* keep", "* ~keep"): """
            You drop where `keep` is True. In a causal mask True means that a score is hidden, but what does it mean
            here?""",
        ("makes the rows sum to 1 again", "/ (1 - p)", "/ (weights * keep).sum(dim=-1, keepdim=True)"): """
            You divide each row by its sum, so each row has a factor of its own. After dropout a row can sum to more or
            less than 1, because only the mean over many masks stays. Which factor depends on p only?""",
    },
    hints=[
        "There are two steps: set to zero what isn't kept, then let the survivors grow.",
        "A weight survives with probability 1 - p. By which factor must it grow so that its mean stays the same?",
        "`weights * keep` is 0 where `keep` is False. Divide that by `1 - p`.",
    ],
    why="With probability 1 - p a weight w becomes w / (1 - p), otherwise 0, so its mean is w.",
    moral="`Dropout` does the same with a mask that it draws itself.",
)


def context_with_dropout(scores, mask, values, dropout):
    """Context (..., n, d) of n queries; scores (..., n, num_keys), values (..., num_keys, d)."""
    weights = torch.softmax(scores.masked_fill(mask, -torch.inf), dim=-1)
    return dropout(weights) @ values


def places(generator):
    sizes = (6, 6, 3, 0.5), (3, 5, 5, 0.2), (2, 4, 4, 4, 0.3), (1, 1, 2, 0.0), (5, 5, 1, 0.6)
    for *batch, queries, keys, d, p in sizes:
        scores, values = normal(generator, (*batch, queries, keys), (*batch, keys, d))
        mask = torch.ones(queries, keys, dtype=torch.bool).triu(diagonal=1)
        yield scores, mask, values, Dropout(p, generator=torch.Generator().manual_seed(queries)).train(queries != 3)


def drops_the_masked_scores(scores, mask, values, dropout):
    return torch.softmax(dropout(scores.masked_fill(mask, -torch.inf)), dim=-1) @ values


def drops_the_scores_before_the_mask(scores, mask, values, dropout):
    return torch.softmax(dropout(scores).masked_fill(mask, -torch.inf), dim=-1) @ values


dropout_in_its_place = Exercise(
    name="dropout_in_its_place",
    title="Dropout in its place",
    prompt="Compute context vectors from scaled scores, a mask that's True where a key is hidden, and values. Call "
    "`dropout`, a layer such as `Dropout(0.5)`, once, where a 0 means that a token isn't read.",
    solution=context_with_dropout,
    cases=places,
    mistakes={
        ("drops the masked scores", drops_the_masked_scores): """
            You drop scores that are already masked. Minus infinity times 0 is NaN, and softmax spreads it over the
            row. Where does a zero mean that a token isn't read?""",
        ("drops the scores before the mask", drops_the_scores_before_the_mask): """
            You drop scores. But a score of 0 isn't a weight of 0, so after softmax that token is still read. What
            should be 0?""",
        ("forgets the mask", "scores.masked_fill(mask, -torch.inf)", "scores"): """
            You don't hide anything, so the future can be read. What happens to the scores before softmax?""",
        ("forgets dropout", "dropout(weights)", "weights"): """
            Nothing is dropped: this is causal attention as in notebook 03. Where do you call `dropout`?""",
        ("drops the values", "dropout(weights) @ values", "weights @ dropout(values)"): """
            You drop entries of the values, the same ones for all queries. What does each query have of its own?""",
        ("drops the context", "dropout(weights) @ values", "dropout(weights @ values)"): """
            You drop entries of the context vectors, when every token has already been read. Which step decides how much
            of a token is read?""",
    },
    hints=[
        "Write down the steps of causal attention without dropout. Which matrices do you meet on the way?",
        "What should be zero in the end, a token's score or the weight that it gets?",
        "The order is mask, softmax, dropout, values, so the last line is `dropout(weights) @ values`.",
    ],
    why="A weight of zero means that a token isn't read, but a score of zero doesn't.",
    moral="`CausalAttention` takes the same steps in the same order.",
)


def variance_of_row_sums(weights, p):
    """Variances (...) of the row sums of weights (..., num_keys) after dropout, over all masks."""
    return (weights**2).sum(dim=-1) * p / (1 - p)


how_far_rows_stray = Exercise(
    name="how_far_rows_stray",
    title="How far do rows stray?",
    prompt="With dropout a row of weights sums to 1 only on average. How far do its sums stray from 1? Return their "
    "exact variance, without drawing a mask. Each weight is either dropped, with probability p, or divided by 1 - p. "
    "That happens independently of the others, so the variances of a row's entries add up.",
    solution=variance_of_row_sums,
    cases=lambda g: [
        (random_weights(g, *shape), p)
        for shape, p in (((6, 6), 0.2), ((3, 8), 0.5), ((1, 5), 0.9), ((2, 4, 3), 0.3), ((5, 2), 0.0))
    ],
    mistakes={
        ("does not square", "(weights**2)", "weights"): """
            You give all rows the same variance. If a weight is twice as large, how much larger is its variance?""",
        ("leaves the scaling out", "/ (1 - p)", "* (1 - p)"): """
            That's the variance without scaling. But survivors are divided by 1 - p, so what does that do to it?""",
        ("takes the mean square for the variance", " * p", ""): """
            You summed the means of the squares. At p = 0 nothing strays, but yours isn't 0. What's missing for a
            variance?""",
        ("gives the standard deviation", " * p / (1 - p)", " ** 0.5 * (p / (1 - p)) ** 0.5"): """
            That's the standard deviation. How do you get from it to the variance?""",
        ("compares the weights of a row", "(weights**2).sum(dim=-1) * p / (1 - p)", "weights.var(dim=-1)"): """
            You measure how the weights of a row differ from each other. How much does the row's sum differ from mask to
            mask? Does that depend on p?""",
    },
    hints=[
        "Take one weight w. Which two values can it have after dropout, and with which probabilities?",
        "A variance is the mean of the square minus the square of the mean. The mean of this weight is w.",
        "One weight has the variance (1 - p) · (w / (1 - p))² - w² = w² · p / (1 - p). Now sum over the row.",
    ],
    why="A weight w becomes w / (1 - p) with probability 1 - p, otherwise 0, so the mean of its square is w² / (1 - "
    "p), and if you subtract w², w² · p / (1 - p) is left.",
    moral="A row that reads only one token strays most. With n equal weights the variance is n times smaller.",
)

EXERCISES = [a_random_mask, dropout_by_hand, dropout_in_its_place, how_far_rows_stray]
progress = Progress(EXERCISES)
