"""Exercises of notebook 08: what a loss can hide, and two tests that find it."""

import torch
from torch.nn import functional as F

from attention_helpers.training.characters import CharacterModel

from .base import Exercise, Progress, Seen, exercises_in, verdict_of


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


def cut(answer, model, x):
    """What an answer says of a model, and if that's wrong, what it did to find out."""
    said, calls = verdict_of(answer, model, x)
    if not isinstance(said, bool) or said == reads_ahead(model, x):
        return said
    return Seen(said, f"Your answer is {said}. {why_wrong(said, model, x, calls)}", "cut" if calls else "calls")


def why_wrong(said, model, x, calls):
    """What the calls of a model show. x: what it was to be called with."""
    others = [call.shape for call in calls if not torch.equal(call, x[:, : call.shape[1]])]
    if others:
        return f"Your code calls the model with token ids, {tuple(others[0])}, that aren't the beginning of `x`."
    lengths = {call.shape[1] for call in calls}
    for n in range(1, x.shape[1]):
        moved = (model(x[:, :n]) - model(x)[:, :n]).flatten()
        largest = moved[moved.abs().argmax()].item()
        if not said and abs(largest) > 1e-4:
            done = "your code never cuts there" if n not in lengths else "that's more than 1e-4, up or down"
            return f"When all but the first {n} tokens are cut off, a logit of these moves by {largest:.2g}: {done}."
    return "But no logit before a cut changes by more than 1e-4."


def models_to_test(generator):
    """Masked and leaky models, and leaks that are small, far, or at one end only; the last has 0 for its future."""
    yield from ((model, x) for model, x, _ in small_models(generator))
    x = torch.randint(1, 5, (3, 6), generator=generator)
    for size, first, last in ((0.0, 0, 1), (5e-4, 2, 3), (1.0, 0, 5), (1.0, 0, 1), (1.0, 4, 5)):
        yield leaks_of(size, first, last), x
    yield leaks_of(0.0, 0, 1), torch.ones_like(x)
    yield leaks_of(1.0, 1, 2), x * (torch.arange(6) < 2)


cut_the_future = Exercise(
    title="Cut the future off",
    prompt="`model` returns logits, (b, num_tokens, characters), for token ids `x`, (b, num_tokens), and also accepts "
    "fewer tokens. Return True if a token's logits change by more than 1e-4 when tokens after it are cut off, else "
    "False. A leak can be at any place, so try every cut.",
    solution=reads_ahead,
    cases=models_to_test,
    call=cut,
    mistakes={
        ("model(x[:, :n]) - complete[:, :n]", "model(x[:, n:]) - complete[:, n:]"): "",
        ("1e-4", "0"): "",
        ("x[:, :n])", "x * (torch.arange(x.shape[1]) < n))[:, :n]"): "",
        ("range(1, x.shape[1])", "[x.shape[1] - 1]"): "",
        (".abs().max()", ".mean()"): "",
        ("max(largest, change.item())", "change.item()"): "",
    },
    heading="08#Can-you-tell-from-outside?",
    hints={
        "calls": "A token that doesn't read the future has the same logits with and without it. Which two calls do you "
        "compare?",
        "cut": "`model(x[:, :n])` returns logits for the first n tokens. Compare them with `model(x)[:, :n]`, for "
        "every n from 1 to num_tokens - 1, and take the largest `.abs()` of all differences.",
    },
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
    honest = honest / x.shape[1]
    return (honest - usual).item()


def small_models(generator):
    for leaky, b, n, window in ((True, 4, 6, 6), (False, 3, 5, 5), (True, 5, 3, 7), (True, 1, 2, 2)):
        model = CharacterModel(5, window, width=8, num_heads=2, leaky=leaky).eval()
        for parameter in model.parameters():
            parameter.data = 0.7 * torch.randn(parameter.shape, generator=generator)
        x, targets = torch.randint(5, (2, b, n), generator=generator)
        yield model, x, targets


how_much_too_low = Exercise(
    imports="from torch.nn import functional as F",
    title="How much too low?",
    prompt="`model` returns logits for the next character at every position of `x`, and `targets` are the right ones. "
    "By how many nats is the usual loss (all positions at once) lower than the honest one? The honest loss is the "
    "mean, over all lengths n from 1 to num_tokens, of the loss at the end of a prefix of n characters. The "
    "difference can be negative.",
    solution=too_low_by,
    cases=small_models,
    mistakes={
        ("model(x[:, :n])[:, -1]", "model(x)[:, n - 1]"): "Your model sees the whole window each time, so your honest "
        "loss is the usual one. What may the input contain after a prefix?",
        ("x[:, :n])[:, -1]", "x * (torch.arange(x.shape[1]) < n))[:, n - 1]"): "You put the token id 0 where the "
        "future was. But 0 is a character too, and a leaky model reads it. Can you leave the future out altogether?",
        ("logits, targets[:, n - 1]", "model(x[:, :n]).mT, targets[:, :n]"): "You take the loss at all positions of "
        "each prefix, but all except the last can see the character that comes next. Which one can't?",
        ("honest / x.shape[1]", "F.cross_entropy(model(x)[:, -1], targets[:, -1])"): "You take the last position of "
        "the whole window. That's honest, but it's only one length of many. What about the shorter prefixes?",
        ("honest - usual", "usual - honest"): "Both losses are right, but the sign isn't. How much *lower* than the "
        "honest loss is the usual one?",
        ("honest / x.shape[1]", "honest"): "Your honest loss is a sum over the lengths. What makes it a mean?",
        ("honest = 0.0", "honest, x = 0.0, x[:, :-1]"): "You stop before the whole window, which is a prefix as well. "
        "(Does `range` include its end?)",
    },
    heading="08#An-honest-loss",
    hints={
        "usual": "The usual loss takes all positions at once: flatten the logits to (b * num_tokens, characters), and "
        "the targets, too.",
        "honest": "In a loop over n, `model(x[:, :n])[:, -1]` are the logits after n characters. Which column of "
        "`targets` is next? Take the mean over n.",
        "result": "Subtract the usual loss from the honest one.",
    },
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
    title="Windows and targets",
    prompt="Cut `token_ids`, (n,), into consecutive windows that don't overlap. Return them as `x`, (count, window), "
    "and with them `targets`, of the same shape: for every token the one that comes after it in the text. Leave out "
    "what's left at the end if it isn't a complete window with all of its targets.",
    solution=windows_and_targets,
    parts="x targets",
    cases=lambda g: [
        (torch.randperm(3 * n, generator=g)[:n], window) for n, window in ((13, 4), (12, 4), (9, 2), (5, 4), (10, 1))
    ],
    mistakes={
        ("token_ids[1 : count * window + 1]", "token_ids[: count * window]"): "Your targets are the inputs themselves. "
        "Every token sees itself, with any mask, so which loss can a model reach by copying?",
        ("token_ids[1 : count * window + 1]", "x.roll(-1, dims=1)"): "You shift each window by itself, so its last "
        "target is its own first token. Where is the token that comes next in the text?",
        ("token_ids[1 : count * window + 1]", "token_ids.roll(1)[: count * window]"): "Your targets are the tokens "
        "before, which a causal model has already read. In which direction should it predict?",
        (
            "return x, targets",
            "return token_ids[:-1].unfold(0, window, 1), token_ids[1:].unfold(0, window, 1)",
        ): "Your windows overlap: each begins one token after the one before it. Where should the next one begin?",
        ("token_ids[1 : count * window + 1]", "token_ids.roll(-1)[: count * window]", " - 1)", ")"): "`roll` carries "
        "the first token to the end, so it can become the last target. Which windows have all of their targets?",
        ("(len(token_ids) - 1)", "(len(token_ids) - 2)"): "You leave out a window that still has all of its targets. "
        "How many tokens do `count` windows need, with their targets?",
    },
    heading="08#Which-loss-is-lower?",
    hints={
        "x": "`token_ids[: count * window].view(count, window)` are the windows, with `count = (n - 1) // window`: the "
        "last target needs a token, too.",
        "targets": "The targets are the same text, cut a little later. How much later?",
    },
    why="Both are slices of one text, one token apart, so every target is the token after, even at the end of a "
    "window.",
    moral="If you forget the shift, neither test of this notebook warns you, because a token's own id is in every "
    "prefix that ends with it. Look at one window and its targets before you train.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
