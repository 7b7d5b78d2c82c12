"""Exercises of notebook 08: what a loss can hide."""

import torch
from torch.nn import functional as F

from ..training.characters import CharacterModel, Characters
from .base import Exercise, Progress


def too_low_by(model, x, targets):
    """By how many nats the usual loss is lower than the honest one; x, targets (b, num_tokens)."""
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def small_models(generator):
    for leaky, b, n, window in ((True, 4, 6, 6), (False, 3, 5, 5), (True, 5, 3, 7), (True, 1, 2, 2)):
        model = CharacterModel(Characters("abcde" * 9, window, held_out=20), 8, 2, 6, leaky=leaky).eval()
        for parameter in model.parameters():
            parameter.data = 0.7 * torch.randn(parameter.shape, generator=generator)
        x, targets = torch.randint(5, (2, b, n), generator=generator)
        yield model, x, targets


how_much_too_low = Exercise(
    name="how_much_too_low",
    imports="from torch.nn import functional as F",
    title="How much too low?",
    prompt="`model` returns logits for the next character at every position of `x`, and `targets` are the right ones. "
    "By how many nats is the usual loss (all positions at once) lower than the honest one? The honest loss is the "
    "mean, over all lengths n from 1 to num_tokens, of the loss at the end of a prefix of n characters. The "
    "difference can be negative.",
    solution=too_low_by,
    cases=small_models,
    mistakes={
        ("shows the model the whole window", "model(x[:, :n])[:, -1]", "model(x)[:, n - 1]"): """
            Your model sees the whole window each time, so your honest loss is the usual one. What may the input contain
            after a prefix?""",
        ("hides the future behind zeros", "x[:, :n])[:, -1]", "x * (torch.arange(x.shape[1]) < n))[:, n - 1]"): """
            You put the token id 0 where the future was. But 0 is a character too, and a leaky model reads it. Can you
            leave the future out altogether?""",
        (
            "averages over the whole prefix",
            "[:, -1], targets[:, n - 1]",
            ".flatten(0, 1), targets[:, :n].flatten()",
        ): """
            You take the loss at all positions of each prefix, but all except the last can see the character that comes
            next. Which one can't?""",
        (
            "takes only the longest prefix",
            "honest / x.shape[1]",
            "F.cross_entropy(model(x)[:, -1], targets[:, -1])",
        ): """
            You take the last position of the whole window. That's honest, but it's only one length of many. What about
            the shorter prefixes?""",
        ("forgets the past", "x[:, :n]", "x[:, n - 1 : n]"): """
            You show the model one character at a time. Is it cheating to read the characters before it?""",
        # `targets[:, n - 1]` is then one too far on.
        ("takes the target after next", "honest = 0.0", "honest, x, targets = 0.0, x[:, :-1], targets[:, 1:]"): """
            You compare with the target after next. `targets` is already one character ahead, so which entry follows n
            characters?""",
        ("subtracts the wrong way round", "honest / x.shape[1] - usual", "usual - honest / x.shape[1]"): """
            Both losses are right, but the sign isn't. How much *lower* than the honest loss is the usual one?""",
        ("returns the honest loss", " - usual", ""): "That's the honest loss. How far below it is the usual one?",
        ("adds up the losses", "honest / x.shape[1]", "honest"): """
            Your honest loss is a sum over the lengths. What makes it comparable with the usual one?""",
        # The loop and the mean then stop one short.
        ("leaves out the longest prefix", "honest = 0.0", "honest, x = 0.0, x[:, :-1]"): """
            You stop before the whole window, which is a prefix as well. (Does `range` include its end?)""",
    },
    hints=[
        "You need two losses and their difference. For the honest one, what may the model see when it predicts "
        "character n + 1?",
        "In a loop over n, `model(x[:, :n])[:, -1]` are the logits after n characters. Which column of `targets` is "
        "next?",
        "Average `F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])` over n, then subtract the usual loss.",
    ],
    why="What follows a prefix isn't in the input, so you don't have to trust any mask. If a mask works, position n "
    "of the whole window sees that prefix and nothing else, so both losses agree up to rounding.",
    moral="The difference is about 0 for a model whose mask works. If it's far above 0, the loss looked too good.",
)


EXERCISES = [how_much_too_low]
progress = Progress(EXERCISES)
