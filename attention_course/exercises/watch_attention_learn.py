"""Exercises of notebook 07: a map, what digits become, and a control."""

import inspect

import torch
from torch import nn

from attention_helpers.training.lookup import LookupTask

from .base import Exercise, Progress, Seen, exercises_in


def question_row(x, letters):
    """The question's weights (b, num_tokens).

    x: symbols (b, num_tokens, 2) of a LookupTask with that many letters.
    """
    letter = x[:, -1:, 0] - letters  # as it is in a pair
    return (x[:, :, 0] == letter).float()


def lookups(generator):
    for letters, digits, pairs, b in ((10, 10, 6, 5), (8, 2, 8, 6), (26, 3, 4, 3), (5, 4, 1, 2)):
        yield LookupTask(1, letters, digits, pairs, b).batch(generator)[0], letters


map_to_come = Exercise(
    title="The map to come",
    prompt="Write the question's row of a perfect map: 1.0 for the pair asked for, and 0.0 for all other tokens. A "
    "letter is a symbol below `letters` (here 4) in a pair, and `letters` higher in a question.",
    solution=question_row,
    cases=lookups,
    mistakes={
        (" - letters", ""): "Your question finds only itself: in a pair, its letter is another symbol. How far apart "
        "are they?",
        (".float()", ".float()[:, :-1]"): "The pairs' weights are right. Which token's weight is missing?",
        (".float()", ".float().argmax(dim=1)"): "These are the right positions, but the exercise asks for weights. "
        "What does a row with a single 1 look like?",
        (".float()", ".float().softmax(dim=-1)"): "You found the right pair and then took a softmax, which makes "
        "nearly even weights of ones and zeros. Aren't your ones and zeros weights already?",
        (" - letters", " - 4"): "That's right only with four letters. Which argument says how many there are?",
    },
    heading="07#Did-it-find-the-right-map?",
    hints={
        "letter": "`x[:, :, 0]` holds the letters, with the question's at the end. Which symbol is that letter in a "
        "pair?",
        "result": "Compare `x[:, :, 0]` with `x[:, -1:, 0] - letters`. `.float()` turns True and False into weights.",
    },
    why="No letter is in two pairs, so each row has a single 1, and the question's own symbol is never below "
    "`letters`, so it doesn't find itself.",
    moral="The last row of the trained head comes close to this one, although training only used the answers.",
)


def digits_to_logits(digit, W_value, out_proj, output_layer):
    """Logits (n, answers) that digits add through a head.

    digit: embeddings (n, width); W_value, out_proj, output_layer: nn.Linear.
    """
    values = W_value(digit)
    contexts = values @ out_proj.weight.T
    return contexts @ output_layer.weight.T


def heads_with_output_layers(generator):
    for n, width, d_out, answers in ((4, 6, 2, 4), (5, 3, 3, 5), (3, 3, 3, 3), (2, 4, 1, 6)):
        layers = nn.Linear(width, d_out, bias=False), nn.Linear(d_out, d_out), nn.Linear(d_out, answers)
        for parameter in (each for layer in layers for each in layer.parameters()):
            parameter.data = torch.randn(parameter.shape, generator=generator)
        yield torch.randn(n, width, generator=generator), *layers


ov_table = Exercise(
    title="What does a digit become?",
    prompt="Return a table with one row per digit, the logits that it adds: its embedding passes through `W_value`, "
    "`out_proj` and `output_layer`. Leave out the biases of the last two, which add the same to every row. "
    "(`W_value` has none.)",
    solution=digits_to_logits,
    cases=heads_with_output_layers,
    mistakes={
        ("contexts @ output_layer.weight.T", "output_layer(out_proj(values))"): "Your logits include the biases. Which "
        "attribute of an `nn.Linear` holds only its matrix?",
        (" @ out_proj.weight.T", ""): "You go from values straight to logits. What does `MultiHeadAttention` do with "
        "its context vectors before it returns them?",
        ("out_proj.weight.T", "out_proj.weight"): "An `nn.Linear` multiplies by its weight transposed. Does your "
        "product, too?",
        ("return contexts @ output_layer.weight.T", "return output_layer.weight @ contexts.T"): "Your table has a "
        "column per digit. Which dimension should come first?",
    },
    heading="07#What-did-the-matrices-become?",
    hints={
        "values": "If a head gives a digit all its weight, the context vector is that digit's value, `W_value(digit)`.",
        "contexts": "`out_proj.weight` is (d_out, d_out), and an `nn.Linear` multiplies by its weight transposed.",
        "result": "Multiply by `output_layer.weight.T`, where `output_layer.weight` is (answers, d_out).",
    },
    why="If a head gives a pair all its weight, it passes on the pair's value, and three matrices in a row are one "
    "matrix.",
    moral="If the head gives a pair less weight, its row counts that much less, because everything here is linear.",
)


def control_batch(task, generator):
    """x and answers of a LookupTask whose letters no longer predict digits."""
    x, answers = task.batch(generator)
    shape = len(x), task.pairs
    order = torch.rand(shape, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def parts_of_batch(answer, *sizes):
    """Letters, digits and answers of a batch."""
    batch = answer(LookupTask(*sizes), torch.Generator().manual_seed(sizes[3]))
    if not isinstance(batch, tuple) or len(batch) != 2 or getattr(batch[0], "ndim", 0) != 3:
        return Seen(batch, "The result should be a pair of x and answers, as `task.batch` returns it.")
    x, answers = batch
    return {"letters": x[:, :, 0], "digits": x[:, :, 1], "answers": answers}


control_run = Exercise(
    title="A control",
    prompt="Does the map emerge because letters predict digits? To find out, one trains a head on a **control**, which "
    "differs only in that. Make its batches: shuffle each sentence's digits, so that pair j of sentence i gets the "
    "digit that was in its pair `order[i, j]`. Letters, question and answers stay. The reply then says what training "
    "on it shows.",
    solution=control_batch,
    stub=inspect.getsource(control_batch).replace("x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)", "...  # your code"),
    cases=lambda generator: [(1, 10, 10, 6, 16), (2, 26, 5, 9, 12), (1, 4, 3, 2, 7), (1, 3, 10, 1, 4)],
    call=parts_of_batch,
    mistakes={
        ("x[:, :-1, 1] = ", ""): "Your batch is the original one. `gather` makes a new tensor: where should its digits "
        "go?",
        ("return x", "x[:, :-1, 0] = x[:, :-1, 0].gather(1, order)\n    return x"): "You move whole pairs, so each "
        "letter keeps its digit, and the task is as easy as before. What has to stay where it is?",
        ("x[:, :-1, 1]", "x[:, :-1, 0]"): "That breaks the link, too, but you move the letters. What should move?",
        ("x[:, :-1, 1].gather(1, order)", "x[:, order[0], 1]"): "All sentences of your batch share one order. Which "
        "row of `order` belongs to which sentence?",
        ("gather(1, order)", "gather(0, order)"): "Your digits come from other sentences, so the answer may not occur "
        "in its own. Along which dimension does `gather` look?",
        ("gather(1, order)", "gather(1, order.argsort(dim=1))"): "Your control is as good, but you read `order` the "
        "other way round. Does it say which pair a digit comes from, or which pair it goes to?",
    },
    heading="07#What-did-the-matrices-become?",
    hints={
        "letters": "Letters predict digits because they're in the same pair. Leave `x[:, :-1, 0]` as it is.",
        "digits": "The digits are `x[:, :-1, 1]`, (b, pairs). `digits.gather(1, order)[i, j]` is `digits[i, order[i, "
        "j]]`. Assign the result to `x[:, :-1, 1]`.",
    },
    why="Only the link between letters and digits is gone, so if no map emerges now, that link was its cause.",
    moral="To train on it, write `control = lookup.LookupTask(letters=4, digits=4, pairs=4)`, `control.batch = lambda "
    "g: control_batch(task, g)` and `loop.Training(lookup.LookupModel(control, d_out=2), control, 0.02).run(100)`. No "
    "map emerges: the pair asked for gets a weight near 0.2, about as much as each of the other four tokens.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
