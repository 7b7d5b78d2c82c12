"""Two exercises of notebook 07, on training: a step, and a control."""

import torch
from torch import nn
from torch.nn import functional as F

from ..training import LookUp
from .base import Exercise, Misconception
from .compare import difference


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
    order = torch.rand(x.shape[0], task.pairs, generator=generator).argsort(dim=1)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def by_letter(x):
    """The digits (b, pairs), in the order of their letters."""
    return x[:, :-1, 1].gather(1, x[:, :-1, 0].argsort(dim=1))


def places(x, plain):
    """Where each digit stood in the plain batch, (b, pairs)."""
    return (x[:, :-1, 1].unsqueeze(2) == plain[:, :-1, 1].unsqueeze(1)).int().argmax(dim=2)


def moves(x, plain):
    """What became of the sentences, in words: the shuffle is random, so numbers cannot be compared."""
    b, pairs = plain.shape[0], plain.shape[1] - 1
    same, old, new = torch.equal, plain[:, :-1, 1], x[:, :-1, 1]
    kept = (by_letter(x) == by_letter(plain)).sum().item() / b
    often = "one a sentence" if abs(kept - 1) < 0.3 else "all" if kept == pairs else "more" if kept > 1 else "fewer"
    orders = len(places(x, plain).unique(dim=0))
    stayed, whole = same(x[:, :-1, 0], plain[:, :-1, 0]), same(new.sort().values, old.sort().values)
    return {
        "question": "kept" if same(x[:, -1], plain[:, -1]) else "changed",
        "letters": "in their places" if stayed else "moved",
        "digits": "of their sentence" if whole else "of other sentences",
        "digits that keep their letter": often if whole else "",
        "orders": ("all alike" if orders == 1 else "few" if orders < b / 4 else "many") if whole and stayed else "",
    }


def shape_of(batch):
    """A batch without its numbers."""
    alright = isinstance(batch, tuple) and all(isinstance(part, torch.Tensor) for part in batch)
    return tuple(map(torch.zeros_like, batch)) if alright else batch


def control_facts(answer, questions, letters, digits, pairs, batch_size):
    """What a control batch has in common with the plain one of the same seed."""
    task, seeds = LookUp(questions, letters, digits, pairs, batch_size), (1, 1, 2)
    plain = [tuple(task.batch(torch.Generator().manual_seed(seed))) for seed in seeds]
    found = [answer(task, torch.Generator().manual_seed(seed)) for seed in seeds]
    if difference(shape_of(plain[0]), shape_of(found[0]), 0.0):
        return dict.fromkeys(FACTS) | {"batch": shape_of(found[0])}
    (x, answers), (again, _), (other, _) = found
    repeated = torch.equal(x, again)
    fixed = repeated and torch.equal(places(x, plain[0][0]), places(other, plain[2][0]))
    facts = {
        "answers": "kept" if torch.equal(answers, plain[0][1]) else "changed",
        "batch of the same seed": "the same" if repeated else "another",
        "order of another seed": "the same" if fixed else "another",
    }
    return {"batch": shape_of(found[0])} | moves(x, plain[0][0]) | facts


def changed_by(change):
    """A wrong solution: change(x, answers, task, generator) gives the new x and answers."""

    def wrong(task, generator):
        return change(*task.batch(generator), task, generator)

    return wrong


def gathered(x, order, *parts):
    """x with its pairs' letters (0), digits (1) or both in another order, (b, pairs)."""
    x = x.clone()
    for part in parts:
        x[:, :-1, part] = x[:, :-1, part].gather(1, order)
    return x


def own_orders(x, generator=None):
    return torch.rand(x.shape[0], x.shape[1] - 1, generator=generator).argsort(dim=1)


def shared_order(x, generator):
    return torch.randperm(x.shape[1] - 1, generator=generator).expand(len(x), -1)


def one_on(x):
    return torch.arange(x.shape[1] - 1).roll(1).expand(len(x), -1)


def across_batch(x, generator):
    x = x.clone()
    x[:, :-1, 1] = x[torch.randperm(len(x), generator=generator), :-1, 1]
    return x


def with_new_answers(x, task):
    """x, and the digits that now stand with the letters asked for."""
    offsets = task.letters * torch.arange(1, task.questions + 1)
    asked = x[:, -1, : task.questions] - offsets  # (b, questions)
    place = (x[:, None, :-1, 0] == asked.unsqueeze(2)).int().argmax(dim=2)
    return x, x[:, :-1, 1].gather(1, place) - 3 * task.letters


control_run = Exercise(
    name="control_run",
    title="A control",
    prompt="Does the map form because letters tell digits? Make a batch in which they do not. Draw one by "
    "`task.batch(generator)`; then, in every sentence, deal its digits out anew among its pairs, in a random order of "
    "its own, every order equally likely, drawn from `generator`. Letters, question and answers stay.",
    solution=control_batch,
    cases=lambda generator: [(1, 10, 10**6, 6, 200), (2, 26, 10**6, 9, 150), (1, 4, 10**6, 2, 300), (1, 3, 10, 1, 8)],
    call=control_facts,
    misconceptions=[
        Misconception(
            "shuffles whole pairs",
            changed_by(lambda x, answers, task, g: (gathered(x, own_orders(x, g), 0, 1), answers)),
            "You shuffle whole pairs: each letter keeps its digit, and the task is as easy as before. Move the digits "
            "alone.",
        ),
        Misconception(
            "moves the letters",
            changed_by(lambda x, answers, task, g: (gathered(x, own_orders(x, g), 0), answers)),
            "That breaks the link, too, but by moving the letters. Let them stay, and deal out the digits.",
        ),
        Misconception(
            "takes one order for all sentences",
            changed_by(lambda x, answers, task, g: (gathered(x, shared_order(x, g), 1), answers)),
            "All sentences of your batch share one order. Draw an order for each of them.",
        ),
        Misconception(
            "moves every digit one pair on",
            changed_by(lambda x, answers, task, g: (gathered(x, one_on(x), 1), answers)),
            "You move every digit one pair on. That is no chance: the right digit stands beside the letter asked for, "
            "where a model that knows places could find it.",
        ),
        Misconception(
            "exchanges digits between sentences",
            changed_by(lambda x, answers, task, g: (across_batch(x, g), answers)),
            "Your digits come from other sentences, so the answer may stand nowhere in its own. Shuffle within each.",
        ),
        Misconception(
            "asks for the new digits",
            changed_by(lambda x, answers, task, g: with_new_answers(gathered(x, own_orders(x, g), 1), task)),
            "Your answers follow the digits to their new letters: that is the same task again, and it can be learned.",
        ),
        Misconception(
            "changes the answers",
            changed_by(lambda x, answers, task, g: (x, answers[torch.randperm(len(x), generator=g)])),
            "You change the answers. That is a control, too, but a rougher one: then even the sentence's own digits "
            "say nothing. Leave the answers, and move the digits.",
        ),
        Misconception(
            "draws from the global generator",
            changed_by(lambda x, answers, task, g: (gathered(x, own_orders(x), 1), answers)),
            "Your order does not come from `generator`, so the same seed does not give the same batch.",
        ),
    ],
    hints=[
        "The digits are `x[:, :-1, 1]`, (b, pairs). You need as many orders as there are sentences.",
        "Sorting random numbers gives a random order: `torch.rand(...).argsort(dim=1)`. `gather` puts digits into it.",
        "`x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)`, with `order` of shape (b, pairs), drawn from `generator`.",
    ],
    why="Numbers drawn independently are equally likely to come in every order, so `argsort` gives each order "
    "equally often, a row a sentence. One thing is changed and all else kept: if now no map forms, it was the "
    "link between letters and digits that made it.",
    moral="Train on it: `control = LookUp()`, then `control.batch = lambda g: control_batch(LookUp(), g)`. "
    "What is left is to guess the digit that stands most often, right about one time in three.",
)
