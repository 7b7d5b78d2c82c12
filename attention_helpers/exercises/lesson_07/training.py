"""A training step, and a control."""

import inspect

import torch
from torch import nn
from torch.nn import functional as F

from ...training.lookup import LookupTask
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


def step_that_never_forgets(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    return loss.item()


def step_that_forgets_only_afterwards(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def step_before_backward(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def step_without_gradients(model, optimizer, loss_function, x, answers):
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def no_step(model, optimizer, loss_function, x, answers):
    optimizer.zero_grad()
    loss = loss_function(model(x), answers)
    loss.backward()
    return loss.item()


def step_without_backward(model, optimizer, loss_function, x, answers):
    optimizer.zero_grad()
    loss = loss_function(model(x), answers)
    optimizer.step()
    return loss.item()


def step_and_the_loss_after_it(model, optimizer, loss_function, x, answers):
    optimizer.zero_grad()
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    return loss_function(model(x), answers).item()


def step_and_the_loss_with_its_graph(model, optimizer, loss_function, x, answers):
    optimizer.zero_grad()
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    return loss


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
            step_that_never_forgets,
            "You never forget old gradients: `backward` adds to what is there, so each step repeats those before it.",
        ),
        Misconception(
            "forgets only after the step",
            step_that_forgets_only_afterwards,
            "Forgetting after the step keeps your own steps apart. But gradients from elsewhere still add to your "
            "first.",
        ),
        Misconception(
            "steps before backward",
            step_before_backward,
            "You move before this batch has made gradients, so each step uses those of the step before.",
        ),
        Misconception(
            "steps without gradients",
            step_without_gradients,
            "Your `step` comes after `zero_grad` with no `backward` in between: there is nothing to go by, and "
            "nothing moves.",
        ),
        Misconception(
            "takes no step",
            no_step,
            "The gradients are right, but nobody moves the parameters. (`optimizer.step` alone calls nothing.)",
        ),
        Misconception(
            "does not go backward",
            step_without_backward,
            "No gradients are made, so nothing moves. The loss has a method for that.",
        ),
        Misconception(
            "returns the loss after the step",
            step_and_the_loss_after_it,
            "The model moves as it should. But you return the loss after the step: the one before was asked for.",
        ),
        Misconception(
            "returns the loss with its graph",
            step_and_the_loss_with_its_graph,
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
    """x and answers of a LookupTask whose letters no longer say which digit is right."""
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)  # (b, pairs)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def batch_of(answer, questions, letters, digits, pairs, batch_size):
    task = LookupTask(questions, letters, digits, pairs, batch_size)
    return answer(task, torch.Generator().manual_seed(pairs))


def nothing_moved(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1].gather(1, order)
    return x, answers


def whole_pairs_moved(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 0] = x[:, :-1, 0].gather(1, order)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def letters_moved(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 0] = x[:, :-1, 0].gather(1, order)
    return x, answers


def one_order_for_all_sentences(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, order[0], 1]
    return x, answers


def digits_of_other_sentences(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, :-1, 1].gather(0, order)
    return x, answers


def order_read_the_other_way_round(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order.argsort(dim=1))
    return x, answers


def digits_overwritten_one_by_one(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    for j in range(task.pairs):
        x[:, j, 1] = x[range(len(x)), order[:, j], 1]
    return x, answers


def answers_that_follow(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    asked = x[:, -1, : task.questions] - task.letters * torch.arange(1, task.questions + 1)  # (b, questions)
    place = (x[:, None, :-1, 0] == asked.unsqueeze(2)).int().argmax(dim=2)  # of the letter asked for
    answers = x[:, :-1, 1].gather(1, place) - 3 * task.letters
    return x, answers


def answers_shuffled(task, generator):
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)  # noqa: F841
    return x, answers[torch.randperm(len(x), generator=generator)]


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
            nothing_moved,
            "Your batch is the plain one. `gather` makes a new tensor: put it where the digits stand.",
        ),
        Misconception(
            "moves whole pairs",
            whole_pairs_moved,
            "You move whole pairs: each letter keeps its digit, and the task is as easy as before. Move the digits "
            "alone.",
        ),
        Misconception(
            "moves the letters",
            letters_moved,
            "That breaks the link, too, but by moving the letters. Let them stay, and deal out the digits.",
        ),
        Misconception(
            "takes one order for all sentences",
            one_order_for_all_sentences,
            "All sentences of your batch share one order. `order` has a row for each of them.",
        ),
        Misconception(
            "takes digits from other sentences",
            digits_of_other_sentences,
            "Your digits come from other sentences, so the answer may stand nowhere in its own. `gather` takes the "
            "dimension along which to look.",
        ),
        Misconception(
            "reads the order the other way round",
            order_read_the_other_way_round,
            "As a control yours is as good, but you read `order` the other way round: it says from which pair a digit "
            "comes, not to which it goes.",
        ),
        Misconception(
            "overwrites digits that are still needed",
            digits_overwritten_one_by_one,
            "You move digits one after the other and overwrite some that a later pair still needs. Read all of them "
            "before you write.",
        ),
        Misconception(
            "makes the answers follow",
            answers_that_follow,
            "Your answers follow the digits to their new letters: that is the same task again, and can be learned.",
        ),
        Misconception(
            "shuffles the answers",
            answers_shuffled,
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
    moral="Train on it: `control = LookupTask()`, then `control.batch = lambda g: control_batch(LookupTask(), g)`. "
    "What is left is to guess the digit that stands most often, right about one time in three.",
)
