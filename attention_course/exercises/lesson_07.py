"""Exercises of notebook 07: a training step, a map, a control, and too few heads."""
# After a change: make exercises, then make refresh NOTEBOOK=07

import inspect

import torch
from torch import nn
from torch.nn import functional as F

from attention_helpers.training.lookup import LookupTask

from .base import Exercise, Progress


def question_row(x, answers, letters):
    """Weights (b, num_tokens) of the question, from x (b, num_tokens, 2) of a LookupTask."""
    return (x[:, :, 0] == x[:, -1:, 0] - letters).float()


def lookups(generator):
    for letters, digits, pairs, b in ((10, 10, 6, 5), (8, 2, 8, 6), (26, 3, 4, 3), (5, 4, 1, 2)):
        x, answers = LookupTask(1, letters, digits, pairs, b).batch(generator)
        yield x, answers, letters


map_to_come = Exercise(
    name="map_to_come",
    title="The map to come",
    prompt="`x`, `answers` is a batch of a `LookupTask` with one question. Write the row of weights that a perfect "
    "head gives to the question: 1.0 for the pair asked for, and 0.0 for all other tokens. In a pair a letter is "
    "a symbol below `letters`, and in the question it's `letters` higher. You don't need every argument.",
    solution=question_row,
    cases=lookups,
    mistakes={
        ("takes the question's letter for the same symbol", " - letters", ""): """
            Your question finds only itself, because the same letter is a different symbol in a pair. How far apart are
            the two?""",
        ("looks for the answer", "x[:, :, 0] == x[:, -1:, 0] - letters", "x[:, :, 1] == answers + 3 * letters"): """
            You look for the answer's digit, which can be in several pairs. A head can't look for what it doesn't know
            yet. What does the question hold?""",
        (
            "shares the weight among pairs with the answer",
            "(x[:, :, 0] == x[:, -1:, 0] - letters).float()",
            "F.normalize((x[:, :, 1] == answers + 3 * letters).float(), p=1)",
        ): """
            You share the weight among all pairs with the right digit. Which one of them has the letter asked for?""",
        ("leaves the question out", ".float()", ".float()[:, :-1]"): """
            The pairs' weights are right, but a row has a weight for every token. Which one is missing?""",
        ("returns the position of the pair", ".float()", ".float().argmax(dim=1)"): """
            These are the right positions, but the exercise asks for weights. What does a row with a single 1 look
            like?""",
        ("takes the softmax of 0 and 1", ".float()", ".float().softmax(dim=-1)"): """
            You found the right pair and then took a softmax, which makes nearly even weights of ones and zeros. Aren't
            your ones and zeros weights already?""",
    },
    hints=[
        "What does the question contain, a letter or a digit? Which tokens contain the same?",
        "`x[:, :, 0]` holds the letters, with the question's at the end. Which symbol is that letter in a pair?",
        "Compare `x[:, :, 0]` with `x[:, -1:, 0] - letters`. `.float()` turns True and False into weights.",
    ],
    why="No letter is in two pairs, so each row has a single 1 and sums to 1, as softmax rows do. The question's own "
    "symbol is never below `letters`, so it doesn't find itself. The answer isn't needed, because where to look "
    "doesn't depend on it.",
    moral="The last row of the trained head comes close to this one, although training only used the answers.",
)


def training_step(model, optimizer, loss_function, x, answers):
    """Move the model once, and return its loss before that, a number."""
    optimizer.zero_grad()
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    return loss.item()


class GradientDescent:
    """zero_grad and step as in torch.optim, whose first use takes longer than a check may; it counts its steps."""

    def __init__(self, model, rate):
        self.parameters, self.rate, self.steps = list(model.parameters()), rate, 0

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter -= self.rate * parameter.grad


def small_tasks(generator):
    for b, d_in, d_out, rate in ((4, 3, 2, 0.1), (6, 2, 5, 0.5), (1, 1, 1, 0.2)):
        x = torch.randn(b, d_in, generator=generator)
        yield x, torch.randn(b, d_out, generator=generator), rate
        if d_out > 1:
            yield x, torch.randint(d_out, (b,), generator=generator), rate


def three_steps(step, x, answers, rate):
    """What three steps leave, in a model that has gradients from elsewhere to begin with."""
    labels = answers.dtype == torch.long
    width = int(answers.max()) + 1 if labels else answers.shape[1]
    model, passes = nn.Linear(x.shape[1], width), []
    for n, parameter in enumerate(model.parameters(), 1):
        parameter.data = torch.linspace(-1, n, parameter.numel()).view(parameter.shape)
        parameter.grad = torch.ones_like(parameter)
    model.weight.register_hook(passes.append)
    optimizer = GradientDescent(model, rate)
    losses = [step(model, optimizer, F.cross_entropy if labels else F.mse_loss, x, answers) for _ in range(3)]
    return {
        "losses": losses,
        "parameters": tuple(parameter.detach() for parameter in model.parameters()),
        "number of backward passes": len(passes),
        "number of optimizer steps": optimizer.steps,
        "losses that keep a graph": sum(getattr(loss, "requires_grad", False) for loss in losses),
    }


def forgets_only_after_the_step(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def steps_before_backward(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


one_training_step = Exercise(
    name="one_training_step",
    title="A training step",
    prompt="Take one step of training. The loss is `loss_function(model(x), answers)`, and `optimizer` has the same "
    "methods as AdamW. Return this batch's loss before the step, as a number (`item()`). The parameters may have "
    "old gradients when you start: don't let them count.",
    solution=training_step,
    cases=small_tasks,
    call=three_steps,
    mistakes={
        ("never forgets", "    optimizer.zero_grad()\n", ""): """
            You never forget old gradients. `backward` adds to what's there, so what does each step move along?""",
        ("forgets only after the step", forgets_only_after_the_step): """
            Forgetting after the step keeps your own steps apart. But what happens to old gradients in your first
            step?""",
        ("steps before backward", steps_before_backward): """
            You move before this batch has any gradients. Whose gradients does your step use?""",
        ("steps without gradients", "loss.backward()", "loss.backward()\n    optimizer.zero_grad()"): """
            Your `step` comes after `zero_grad`, with no `backward` between them. Which gradients can it use then?""",
        ("takes no step", "    optimizer.step()\n", ""): """
            The gradients are right, but nothing moves the parameters. Do you call `optimizer.step`, with
            parentheses?""",
        ("doesn't go backward", "    loss.backward()\n", ""): """
            There are no gradients, so nothing moves. Which method of the loss computes them?""",
        ("returns the loss after the step", "loss.item()", "loss_function(model(x), answers).item()"): """
            The model moves as it should, but you return the loss after the step. When do you have to compute the one
            before?""",
        ("returns the loss with its graph", "loss.item()", "loss"): """
            Everything is right except what you return: a tensor that keeps the graph it was computed with. A list of
            such losses would keep all graphs in memory. Which method gives the number?""",
    },
    hints=[
        "There are four things to do before you return: forget, compute the loss, go backward, move. Which one needs "
        "which?",
        "`backward` adds its gradients to those that are there, and `step` uses all that's there.",
        "`optimizer.zero_grad()`, then the loss, `loss.backward()`, `optimizer.step()`, and return `loss.item()`.",
    ],
    why="`backward` adds, so old gradients must be forgotten before it, and `step` uses the gradients, so it comes "
    "after it. That way a step depends only on this batch, on the parameters, and on what the optimizer "
    "remembers.",
    moral="`Training.take_step` does the same, and keeps the losses in a list.",
)


def control_batch(task, generator):
    """x and answers of a LookupTask whose letters no longer say which digit is right."""
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)  # (b, pairs)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def makes_the_answers_follow(task, generator):
    x, _ = control_batch(task, generator)
    asked = x[:, -1, : task.questions] - task.letters * torch.arange(1, task.questions + 1)  # (b, questions)
    place = (x[:, None, :-1, 0] == asked.unsqueeze(2)).int().argmax(dim=2)  # of the letter asked for
    return x, x[:, :-1, 1].gather(1, place) - 3 * task.letters


control_run = Exercise(
    name="control_run",
    title="A control",
    prompt="Does the map emerge because letters predict digits? To find out, make a **control**: a batch that "
    "differs only in that. Shuffle each sentence's digits, so that pair j of sentence i gets the digit that was in "
    "its pair `order[i, j]`. Letters, question and answers stay.",
    solution=control_batch,
    stub=inspect.getsource(control_batch).replace("x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)", "...  # your code"),
    cases=lambda generator: [(1, 10, 10, 6, 16), (2, 26, 5, 9, 12), (1, 4, 3, 2, 7), (1, 3, 10, 1, 4)],
    call=lambda answer, questions, letters, digits, pairs, batch_size: answer(
        LookupTask(questions, letters, digits, pairs, batch_size), torch.Generator().manual_seed(pairs)
    ),
    mistakes={
        ("moves nothing", "x[:, :-1, 1] = ", ""): """
            Your batch is the original one. `gather` makes a new tensor, so where do its digits have to go?""",
        ("moves whole pairs", "return x", "x[:, :-1, 0] = x[:, :-1, 0].gather(1, order)\n    return x"): """
            You move whole pairs, so each letter keeps its digit, and the task is as easy as before. What has to stay
            where it is?""",
        ("moves the letters", "x[:, :-1, 1]", "x[:, :-1, 0]"): """
            That breaks the link, too, but you move the letters. Which part of a token should move instead?""",
        ("takes one order for all sentences", "x[:, :-1, 1].gather(1, order)", "x[:, order[0], 1]"): """
            All sentences of your batch share one order. Which row of `order` belongs to which sentence?""",
        ("takes digits from other sentences", "gather(1, order)", "gather(0, order)"): """
            Your digits come from other sentences, so the answer may not occur in its own. Along which dimension does
            `gather` look?""",
        ("reads the order the other way round", "gather(1, order)", "gather(1, order.argsort(dim=1))"): """
            Your control is as good, but you read `order` the other way round. Does it say which pair a digit comes
            from, or which pair it goes to?""",
        (
            "overwrites digits that are still needed",
            "x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)",
            "for j in range(task.pairs):\n        x[:, j, 1] = x[range(len(x)), order[:, j], 1]",
        ): """
            You move the digits one after another, and overwrite some that a later pair still needs. Can you read all of
            them first?""",
        ("makes the answers follow", makes_the_answers_follow): """
            Your answers follow the digits to their new letters, so this is the same task again. What shouldn't
            change?""",
        (
            "shuffles the answers",
            "x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)",
            "answers = answers[torch.randperm(len(x), generator=generator)]",
        ): """
            You shuffle the answers. That's a control, too, but a cruder one, because then the right digit may not even
            be in the sentence. What should move instead?""",
    },
    hints=[
        "Letters predict digits because they're in the same pair. What has to move, and what has to stay?",
        "The digits are `x[:, :-1, 1]`, (b, pairs). `digits.gather(1, order)[i, j]` is `digits[i, order[i, j]]`.",
        "Assign the result to `x[:, :-1, 1]`, and leave `x[:, :-1, 0]` as it is.",
    ],
    why="Letters, digits, questions and answers are the same as before. Only the link between letters and digits is "
    "gone, so if no map emerges now, that link was its cause. Sorting independent random numbers gives every "
    "order equally often.",
    moral="To train on it, write `control = LookupTask()`, then `control.batch = lambda g: "
    "control_batch(LookupTask(), g)`. All that's left is to guess the most frequent digit, which is right about "
    "one time in three.",
)


def right_answers(shares, digits, values, output_layer):
    """The accuracy of each answer, (2,); shares (num_heads, 2), digits (b, 2)."""
    contexts = shares @ values[digits]  # (num_heads, 2) @ (b, 2, width) -> (b, num_heads, width)
    logits = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (logits.argmax(dim=-1) == digits).float().mean(dim=0)


def output_layers(generator):
    """One head and more, with random output layers, and then with the identity."""
    for num_heads, b, n, width in ((1, 60, 4, 3), (2, 50, 3, 5), (3, 40, 5, 2), (1, 5, 1, 2)):
        output_layer = nn.Linear(num_heads * width, 2 * n)
        for parameter in output_layer.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        digits = torch.randint(n, (b, 2), generator=generator)
        shares = torch.rand(num_heads, 2, generator=generator)
        yield shares, digits, torch.randn(n, width, generator=generator), output_layer
    for shares in ([[0.7, 0.3]], [[1.0, 0.0], [0.0, 1.0]]):
        output_layer = nn.Linear(6 * len(shares), 12)
        output_layer.weight.data = torch.eye(6).repeat(2, 1) if len(shares) == 1 else torch.eye(12)
        output_layer.bias.data = torch.linspace(0, 0.01, 12)  # so that no logits are equal
        digits = torch.cartesian_prod(torch.arange(6), torch.arange(6))
        yield torch.tensor(shares), digits, torch.eye(6), output_layer


too_few_heads = Exercise(
    name="too_few_heads",
    title="Too few heads",
    prompt="Each row of `digits` holds the two digits that a sentence asks for. In all heads, a digit's value is its "
    "row of `values`, (n, width), and head h gives the two values the weights `shares[h]`. `output_layer` takes the "
    "heads' context vectors side by side, and returns n logits for the first answer, then n for the second. What's "
    "the accuracy of each answer?",
    solution=right_answers,
    cases=output_layers,
    mistakes={
        ("passes on the values without averaging", "shares @ values", "values"): """
            You give the output layer both values, side by side. How many vectors does a head pass on?""",
        ("exchanges heads and pairs", "shares @", "shares.T @"): """
            You use a column of `shares` for a head. What do the two entries of a row mean?""",
        ("alternates between the heads", "contexts.flatten(1)", "contexts.transpose(1, 2).flatten(1)"): """
            In your context vectors the heads alternate. Which head's entries should come first?""",
        ("alternates between the answers", "view(len(digits), 2, -1)", "view(len(digits), -1, 2).transpose(1, 2)"): """
            You alternate between the answers. Which of the 2n logits belong to the first answer?""",
        (
            "takes the answers in any order",
            "(logits.argmax(dim=-1) == digits)",
            "(logits.argmax(dim=-1).unsqueeze(2) == digits.unsqueeze(1)).any(dim=2)",
        ): """
            You count a digit as right in either position. Which answer belongs to which digit?""",
        ("counts sentences with both right", ".float().mean(dim=0)", ".all(dim=1).float().mean()"): """
            You count sentences in which both answers are right. How would you count each answer by itself?""",
        ("averages over the questions", "mean(dim=0)", "mean(dim=1)"): """
            You return one number per sentence. Over which dimension should you average?""",
        ("averages over everything", "mean(dim=0)", "mean()"): """
            A single number hides what this is about: which of the two answers gets lost? Return one number for
            each.""",
    },
    hints=[
        "`values[digits]` has the shape (b, 2, width). Which product averages its two rows, once for each head?",
        "`shares @ values[digits]` is (b, num_heads, width). `flatten(1)` puts the heads side by side.",
        "`output_layer(...).view(len(digits), 2, -1).argmax(dim=-1)` are the answers. Compare them with `digits`, "
        "then average.",
    ],
    why="Take one head with shares w and 1 - w, and look at the logits of the second answer. For the digits (a, a), "
    "let a lead by p, and for (b, b), let b lead by q. Everything is linear, so for (a, b) b leads by (1 - w)q - "
    "wp, and for (b, a) a leads by (1 - w)p - wq. Both can only be above 0 if their sum (1 - 2w)(p + q) is, "
    "which needs w < 1/2. In the same way, the first answer needs w > 1/2.",
    moral="Ask for all pairs of digits with one head, `[[0.7, 0.3]]`. With any values and any linear output layer, "
    "some answer is wrong. With two heads, `torch.eye(2)`, all can be right.",
)


EXERCISES = [one_training_step, map_to_come, control_run, too_few_heads]
progress = Progress(EXERCISES)
