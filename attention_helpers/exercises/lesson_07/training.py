"""A training step, and a control."""

import inspect

import torch
from torch import nn
from torch.nn import functional as F

from ...beyond.training import LookUp
from ..base import Exercise, Misconception


def training_step(model, optimizer, loss_function, x, answers):
    """Moves the model once, and returns its loss before that, a number."""
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


def in_order(*names, after=False, number=True):
    """A wrong solution: what is called, in this order, and whether the loss is that after the step, or a number."""

    def wrong(model, optimizer, loss_function, x, answers):
        loss = loss_function(model(x), answers)
        calls = {"zero_grad": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}
        for name in names:
            calls[name]()
        loss = loss_function(model(x), answers) if after else loss
        return loss.item() if number else loss

    return wrong


one_training_step = Exercise(
    name="one_training_step",
    title="A training step",
    prompt="Take one step of training. `loss_function(model(x), answers)` is the loss; `optimizer` has the "
    "methods that you met with AdamW. Return the loss of this batch before the step, as a number (`item()`). "
    "Parameters may have gradients from elsewhere when you start: they must not count.",
    solution=training_step,
    cases=lambda generator: list(small_tasks(generator)),
    call=three_steps,
    misconceptions=[
        Misconception(
            "never forgets",
            in_order("backward", "step"),
            "You never forget old gradients: `backward` adds to what is there, so each step repeats those before it.",
        ),
        Misconception(
            "forgets only after the step",
            in_order("backward", "step", "zero_grad"),
            "Forgetting after the step keeps your own steps apart. But gradients from elsewhere still add to your "
            "first.",
        ),
        Misconception(
            "steps before backward",
            in_order("step", "zero_grad", "backward"),
            "You move before this batch has made gradients, so each step uses those of the step before.",
        ),
        Misconception(
            "steps without gradients",
            in_order("backward", "zero_grad", "step"),
            "Your `step` comes after `zero_grad` with no `backward` in between: there is nothing to go by, and "
            "nothing moves.",
        ),
        Misconception(
            "takes no step",
            in_order("zero_grad", "backward"),
            "The gradients are right, but nobody moves the parameters. (`optimizer.step` alone calls nothing.)",
        ),
        Misconception(
            "does not go backward",
            in_order("zero_grad", "step"),
            "No gradients are made, so nothing moves. The loss has a method for that.",
        ),
        Misconception(
            "returns the loss after the step",
            in_order("zero_grad", "backward", "step", after=True),
            "The model moves as it should. But you return the loss after the step: the one before was asked for.",
        ),
        Misconception(
            "returns the loss with its graph",
            in_order("zero_grad", "backward", "step", number=False),
            "All is right but the return: a tensor that still holds the graph that made it. A list of such losses "
            "would keep all graphs in memory. `item()` gives the number.",
        ),
    ],
    hints=[
        "Four things, then the return: forget, compute, send backward, move. Which needs which?",
        "`backward` adds its gradients to those that are there, and `step` uses all that is there.",
        "`optimizer.zero_grad()`, then the loss, `loss.backward()`, `optimizer.step()`, and return `loss.item()`.",
    ],
    why="`backward` adds, so what is there must be forgotten before it; `step` reads, so it comes after it. With "
    "fresh gradients each time, a step depends on this batch and on where the parameters stand (and on what the "
    "optimizer itself remembers).",
    moral="`Training.take_step` does the same, and keeps the losses in a list.",
)


def control_batch(task, generator):
    """x and answers of a LookUp whose letters no longer say which digit is right."""
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)  # (b, pairs)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def batch_of(answer, questions, letters, digits, pairs, batch_size):
    task = LookUp(questions, letters, digits, pairs, batch_size)
    return answer(task, torch.Generator().manual_seed(pairs))


def dealt(change):
    """A wrong solution: change(x, answers, order, task, generator) gives x and answers."""

    def wrong(task, generator):
        x, answers = task.batch(generator)
        order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
        return change(x, answers, order, task, generator)

    return wrong


def in_the_order(x, order, *parts, dim=1):
    """x with its pairs' letters (0), digits (1) or both in another order."""
    x = x.clone()
    for part in parts:
        x[:, :-1, part] = x[:, :-1, part].gather(dim, order)
    return x


def one_by_one(x, order):
    """x, its digits moved one after the other within the same tensor."""
    for j in range(order.shape[1]):
        x[:, j, 1] = x[range(len(x)), order[:, j], 1]
    return x


def with_new_answers(x, task):
    """x, and the digits that now stand with the letters asked for."""
    asked = x[:, -1, : task.questions] - task.letters * torch.arange(1, task.questions + 1)  # (b, questions)
    place = (x[:, None, :-1, 0] == asked.unsqueeze(2)).int().argmax(dim=2)
    return x, x[:, :-1, 1].gather(1, place) - 3 * task.letters


control_run = Exercise(
    name="control_run",
    title="A control",
    prompt="Does the map form because letters tell digits? Make a control: a batch in which they do not, and "
    "all else is as it was. Deal each sentence's digits out anew: its pair j gets the digit that stood in its pair "
    "`order[i, j]`, for sentence i. Letters, question and answers stay.",
    solution=control_batch,
    stub=inspect.getsource(control_batch).replace("x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)", "...  # your code"),
    cases=lambda generator: [(1, 10, 10, 6, 16), (2, 26, 5, 9, 12), (1, 4, 3, 2, 7), (1, 3, 10, 1, 4)],
    call=batch_of,
    misconceptions=[
        Misconception(
            "moves nothing",
            dealt(lambda x, answers, order, *_: (x, answers)),
            "Your batch is the plain one. `gather` makes a new tensor: put it where the digits stand.",
        ),
        Misconception(
            "moves whole pairs",
            dealt(lambda x, answers, order, *_: (in_the_order(x, order, 0, 1), answers)),
            "You move whole pairs: each letter keeps its digit, and the task is as easy as before. Move the digits "
            "alone.",
        ),
        Misconception(
            "moves the letters",
            dealt(lambda x, answers, order, *_: (in_the_order(x, order, 0), answers)),
            "That breaks the link, too, but by moving the letters. Let them stay, and deal out the digits.",
        ),
        Misconception(
            "takes one order for all sentences",
            dealt(lambda x, answers, order, *_: (in_the_order(x, order[:1].expand_as(order), 1), answers)),
            "All sentences of your batch share one order. `order` has a row for each of them.",
        ),
        Misconception(
            "takes digits from other sentences",
            dealt(lambda x, answers, order, *_: (in_the_order(x, order, 1, dim=0), answers)),
            "Your digits come from other sentences, so the answer may stand nowhere in its own. `gather` takes the "
            "dimension along which to look.",
        ),
        Misconception(
            "reads the order the other way round",
            dealt(lambda x, answers, order, *_: (in_the_order(x, order.argsort(dim=1), 1), answers)),
            "As a control yours is as good, but you read `order` the other way round: it says from which pair a digit "
            "comes, not to which it goes.",
        ),
        Misconception(
            "overwrites digits that are still needed",
            dealt(lambda x, answers, order, *_: (one_by_one(x, order), answers)),
            "You move digits one after the other and overwrite some that a later pair still needs. Read all of them "
            "before you write.",
        ),
        Misconception(
            "makes the answers follow",
            dealt(lambda x, answers, order, task, _: with_new_answers(in_the_order(x, order, 1), task)),
            "Your answers follow the digits to their new letters: that is the same task again, and can be learned.",
        ),
        Misconception(
            "shuffles the answers",
            dealt(lambda x, answers, order, task, g: (x, answers[torch.randperm(len(x), generator=g)])),
            "You shuffle the answers. That is a control, too, but a rougher one: then not even the sentence's own "
            "digits say anything. Leave the answers, and move the digits.",
        ),
    ],
    hints=[
        "Letters tell digits because they stand in one pair. What has to move, and what has to stay?",
        "The digits are `x[:, :-1, 1]`, (b, pairs). `digits.gather(1, order)[i, j]` is `digits[i, order[i, j]]`.",
        "Assign it to the place where the digits were: `x[:, :-1, 1] = ...`, without touching `x[:, :-1, 0]`.",
    ],
    why="The same letters, digits, questions and answers as before; what changed is which digit stands with which "
    "letter. If now no map forms, it was that link that made it. Sorting independent random numbers gives every "
    "order equally often.",
    moral="Train on it: `control = LookUp()`, then `control.batch = lambda g: control_batch(LookUp(), g)`. "
    "What is left is to guess the digit that stands most often, right about one time in three.",
)
