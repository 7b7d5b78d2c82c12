"""Exercises of notebook 08: what a loss can hide, and two tests that find it."""
# After a change: make exercises, then make refresh NOTEBOOK="08 help"

import torch
from torch.nn import functional as F

from attention_helpers.training.characters import CharacterModel

from .base import Exercise, Progress


def reads_ahead(model, x):
    """True if cutting off the end of x changes logits before the cut.

    x: token ids (b, num_tokens).
    """
    complete = model(x)  # (b, num_tokens, characters)
    largest = 0.0
    for n in range(1, x.shape[1]):
        change = (model(x[:, :n]) - complete[:, :n]).abs().max()
        largest = max(largest, change.item())
    return largest > 1e-4


def leaks_of(size, first, last):
    """A model whose token at `first` also reads the one at `last`, and adds `size` to that one's logit."""

    def model(x):
        logits = F.one_hot(x, 5).float() + 1e-6 * x.shape[1]  # what rounding might do
        if x.shape[1] > last:
            logits[:, first] += size * F.one_hot(x[:, last], 5)
        return logits

    return model


def models_to_test(generator):
    """Masked and leaky models, and leaks that are small, far, or at one end only; the last has 0 for its future."""
    yield from ((model, x) for model, x, _ in small_models(generator))
    x = torch.randint(1, 5, (3, 6), generator=generator)
    for size, first, last in ((0.0, 0, 1), (0.01, 2, 3), (1.0, 0, 5), (1.0, 0, 1), (1.0, 4, 5)):
        yield leaks_of(size, first, last), x
    yield leaks_of(0.0, 0, 1), torch.ones_like(x)
    yield leaks_of(1.0, 1, 2), x * (torch.arange(6) < 2)


cut_the_future = Exercise(
    name="cut_the_future",
    title="Cut the future off",
    prompt="`model` returns logits, (b, num_tokens, characters), for token ids `x`, (b, num_tokens), and also accepts "
    "fewer tokens. Return True if a token's logits change by more than 1e-4 when tokens after it are cut off, else "
    "False. A leak can be at any place, so try every cut.",
    solution=reads_ahead,
    cases=models_to_test,
    mistakes={
        ("cuts off the past", "model(x[:, :n]) - complete[:, :n]", "model(x[:, n:]) - complete[:, n:]"): """
            You cut off the beginning, so you test whether tokens read the past. They should. Which end is the
            future?""",
        ("takes rounding for a leak", "1e-4", "0"): """
            You call any change a leak, but the same sum over fewer numbers can be rounded differently. How large does
            a change have to be here?""",
        ("hides the future behind zeros", "x[:, :n])", "x * (torch.arange(x.shape[1]) < n))[:, :n]"): """
            You put the token id 0 where the future was. But 0 is a character too, and if the future was made of it,
            nothing has changed. Can you leave those tokens out?""",
        ("cuts only the last token off", "range(1, x.shape[1])", "[x.shape[1] - 1]"): """
            You cut off only the last token, and a token before it could read one that's still there. Which other cuts
            are there?""",
        ("averages the changes", ".abs().max()", ".mean()"): """
            You miss changes: in an average, those up and those down cancel, and without `abs`, one that goes down isn't
            large. Which number of a table tells that one entry changed?""",
    },
    hints=[
        "A token that doesn't read the future has the same logits with and without it. Which two calls do you compare?",
        "`model(x[:, :n])` returns logits for the first n tokens. Compare them with `model(x)[:, :n]`.",
        "Take the largest `.abs()` of that difference for every n from 1 to num_tokens - 1, and compare the largest of "
        "them with 1e-4.",
    ],
    why="After a cut, the rest of the future can't be read, because it isn't there. So if all logits stay the same, up "
    "to rounding, no token used it, at least for this `x` and these weights. Two conditions: call `model.eval()` "
    "first, because dropout changes logits with every call, and in bfloat16, allow more than 1e-4, because its numbers "
    "near 20 are 0.125 apart.",
    moral="It needs only the model's input and output, so it works on any model that accepts shorter inputs.",
)


def too_low_by(model, x, targets):
    """By how many nats the usual loss is lower than the honest one.

    x, targets: token ids (b, num_tokens).
    """
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        logits = model(x[:, :n])[:, -1]
        honest = honest + F.cross_entropy(logits, targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def small_models(generator):
    for leaky, b, n, window in ((True, 4, 6, 6), (False, 3, 5, 5), (True, 5, 3, 7), (True, 1, 2, 2)):
        model = CharacterModel(5, window, width=8, num_heads=2, leaky=leaky).eval()
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
        ("averages over the whole prefix", "logits, targets[:, n - 1]", "model(x[:, :n]).mT, targets[:, :n]"): """
            You take the loss at all positions of each prefix, but all except the last can see the character that comes
            next. Which one can't?""",
        (
            "takes only the longest prefix",
            "honest / x.shape[1]",
            "F.cross_entropy(model(x)[:, -1], targets[:, -1])",
        ): """
            You take the last position of the whole window. That's honest, but it's only one length of many. What about
            the shorter prefixes?""",
        ("subtracts the wrong way round", "honest / x.shape[1] - usual", "usual - honest / x.shape[1]"): """
            Both losses are right, but the sign isn't. How much *lower* than the honest loss is the usual one?""",
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
    why="What follows a prefix isn't in the input, so for the honest loss you don't have to trust any mask.",
    moral="The difference is about 0 for a model whose mask works. If it's far above 0, the loss looked too good.",
)


def windows_and_targets(token_ids, window):
    """Consecutive windows x, and the token after each token, targets.

    token_ids: (n,). Returns two tensors (count, window).
    """
    count = (len(token_ids) - 1) // window
    x = token_ids[: count * window].view(count, window)
    targets = token_ids[1 : count * window + 1].view(count, window)
    return x, targets


shifted_targets = Exercise(
    name="shifted_targets",
    title="Windows and targets",
    prompt="Cut `token_ids`, (n,), into consecutive windows that don't overlap. Return them as `x`, (count, window), "
    "and with them `targets`, of the same shape: for every token the one that comes after it in the text. Leave out "
    "what's left at the end if it isn't a complete window with all of its targets.",
    solution=windows_and_targets,
    cases=lambda g: [
        (torch.randperm(3 * n, generator=g)[:n], window) for n, window in ((13, 4), (12, 4), (9, 2), (5, 4), (10, 1))
    ],
    mistakes={
        ("forgets the shift", "token_ids[1 : count * window + 1]", "token_ids[: count * window]"): """
            Your targets are the inputs themselves. Every token sees itself, with any mask, so which loss can a model
            reach by copying?""",
        ("shifts within each window", "token_ids[1 : count * window + 1]", "x.roll(-1, dims=1)"): """
            You shift each window by itself, so its last target is its own first token. Where is the token that comes
            next in the text?""",
        ("shifts the wrong way", "token_ids[1 : count * window + 1]", "token_ids.roll(1)[: count * window]"): """
            Your targets are the tokens before, which a causal model has already read. In which direction should it
            predict?""",
        (
            "makes overlapping windows",
            "return x, targets",
            "return token_ids[:-1].unfold(0, window, 1), token_ids[1:].unfold(0, window, 1)",
        ): """
            Your windows overlap: each begins one token after the one before it. Where should the next one begin?""",
        (
            "rolls the text",
            "targets = token_ids[1 : count * window + 1].view(count, window)",
            "rows = (ids[: len(ids) // window * window].view(-1, window) for ids in (token_ids, token_ids.roll(-1)))\n"
            "    x, targets = rows",
        ): """
            `roll` carries the first token to the end, so it can become the last target. Which windows have all of their
            targets?""",
        ("leaves out a window", "(len(token_ids) - 1)", "(len(token_ids) - 2)"): """
            You leave out a window that still has all of its targets. How many tokens do `count` windows need, with
            their targets?""",
    },
    hints=[
        "The targets are the same text, cut a little later. How much later?",
        "`count` windows need `count * window` tokens, and one more for the last target.",
        "`token_ids[: count * window].view(count, window)` are the windows, with `count = (n - 1) // window`. For the "
        "targets, begin at 1.",
    ],
    why="Both are slices of one text, one token apart, so every target is the token after, even at the end of a "
    "window.",
    moral="If you forget the shift, neither test of this notebook warns you, because a token's own id is in every "
    "prefix that ends with it. Look at one window and its targets before you train.",
)


EXERCISES = [cut_the_future, how_much_too_low, shifted_targets]
progress = Progress(EXERCISES)
