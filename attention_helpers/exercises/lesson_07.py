"""Exercises of notebook 07: a map, a training step, a control, and what a loss may hide."""

import inspect

import torch
from torch import nn
from torch.nn import functional as F

from ..training.characters import CharacterModel, Characters
from ..training.lookup import LookupTask
from .base import Exercise, Progress


def question_row(x, answers, letters):
    """Weights (b, num_tokens) of the question, from x (b, num_tokens, 2) of a LookupTask."""
    return (x[:, :, 0] == x[:, -1:, 0] - letters).float()


def look_ups(generator):
    for letters, digits, pairs, b in ((10, 10, 6, 5), (8, 2, 8, 6), (26, 3, 4, 3), (5, 4, 1, 2)):
        x, answers = LookupTask(1, letters, digits, pairs, b).batch(generator)
        yield x, answers, letters


map_to_come = Exercise(
    name="map_to_come",
    title="The map to come",
    prompt="`x`, `answers` is a batch of a `LookupTask` with one question. Write the row of weights that a perfect "
    "head gives to the question's token: 1.0 on the pair asked for, 0.0 on all other tokens. In a pair "
    "a letter is a symbol below `letters`; in the question it is `letters` higher. Not every argument "
    "is needed.",
    solution=question_row,
    cases=lambda generator: list(look_ups(generator)),
    mistakes=[
        (
            "takes the question's letter for the same symbol",
            " - letters",
            "",
            "Your question finds only itself. The same letter is another symbol in a pair than in the question.",
        ),
        (
            "looks for the answer",
            "x[:, :, 0] == x[:, -1:, 0] - letters",
            "x[:, :, 1] == answers + 3 * letters",
            "You look for the answer's digit, which may stand in several pairs. A head cannot look for what it does "
            "not know yet: the question holds a letter.",
        ),
        (
            "shares the weight among pairs with the answer",
            "(x[:, :, 0] == x[:, -1:, 0] - letters).float()",
            "F.normalize((x[:, :, 1] == answers + 3 * letters).float(), p=1)",
            "Your weights are shared among all pairs with the right digit. Only one of them has the letter asked for.",
        ),
        (
            "leaves the question out",
            ".float()",
            ".float()[:, :-1]",
            "The pairs' weights are right. But a row has a weight for every token, the question included.",
        ),
        (
            "gives the place of the pair",
            ".float()",
            ".float().argmax(dim=1)",
            "These are the right places. Asked for are weights: a row for each sentence, with a 1 at that place.",
        ),
        (
            "takes the softmax of 0 and 1",
            ".float()",
            ".float().softmax(dim=-1)",
            "You found the right pair and then took a softmax: of ones and zeros it makes nearly even shares. "
            "Your ones and zeros were weights already.",
        ),
    ],
    hints=[
        "What does the question's token know: a letter or a digit? Which tokens hold the same?",
        "`x[:, :, 0]` holds the letters, the question's at the end. Which symbol is that letter in a pair?",
        "Compare `x[:, :, 0]` with `x[:, -1:, 0] - letters`. `.float()` makes weights of True and False.",
    ],
    why="No letter stands in two pairs, so each row has a single 1 and sums to 1, as softmax rows do. The "
    "question's own symbol is never below `letters`, so it does not find itself. The answer is not needed: where to "
    "look does not depend on it.",
    moral="The trained head's last row comes close to this one, though training told it only the answers.",
)


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


one_training_step = Exercise(
    name="one_training_step",
    title="A training step",
    prompt="Take one step of training. `loss_function(model(x), answers)` is the loss; `optimizer` has the "
    "methods that you met with AdamW. Return the loss of this batch before the step, as a number (`item()`). "
    "Parameters may have gradients from elsewhere when you start: they must not count.",
    solution=training_step,
    cases=lambda generator: list(small_tasks(generator)),
    call=three_steps,
    mistakes=[
        (
            "never forgets",
            "    optimizer.zero_grad()\n",
            "",
            "You never forget old gradients: `backward` adds to what is there, so each step repeats those before it.",
        ),
        "forgets only after the step",
        "steps before backward",
        (
            "steps without gradients",
            "loss.backward()",
            "loss.backward()\n    optimizer.zero_grad()",
            "Your `step` comes after `zero_grad` with no `backward` in between: there is nothing to go by, and "
            "nothing moves.",
        ),
        (
            "takes no step",
            "    optimizer.step()\n",
            "",
            "The gradients are right, but nobody moves the parameters. (`optimizer.step` alone calls nothing.)",
        ),
        (
            "does not go backward",
            "    loss.backward()\n",
            "",
            "No gradients are made, so nothing moves. The loss has a method for that.",
        ),
        (
            "returns the loss after the step",
            "loss.item()",
            "loss_function(model(x), answers).item()",
            "The model moves as it should. But you return the loss after the step: the one before was asked for.",
        ),
        (
            "returns the loss with its graph",
            "loss.item()",
            "loss",
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


@one_training_step.mistake
def forgets_only_after_the_step(model, optimizer, loss_function, x, answers):
    """Forgetting after the step keeps your own steps apart. But gradients from elsewhere still add to your first."""
    loss = loss_function(model(x), answers)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@one_training_step.mistake
def steps_before_backward(model, optimizer, loss_function, x, answers):
    """You move before this batch has made gradients, so each step uses those of the step before."""
    loss = loss_function(model(x), answers)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def control_batch(task, generator):
    """x and answers of a LookupTask whose letters no longer say which digit is right."""
    x, answers = task.batch(generator)
    order = torch.rand(len(x), task.pairs, generator=generator).argsort(dim=1)  # (b, pairs)
    x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)
    return x, answers


def batch_of(answer, questions, letters, digits, pairs, batch_size):
    task = LookupTask(questions, letters, digits, pairs, batch_size)
    return answer(task, torch.Generator().manual_seed(pairs))


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
    mistakes=[
        (
            "moves nothing",
            "x[:, :-1, 1] = ",
            "",
            "Your batch is the plain one. `gather` makes a new tensor: put it where the digits stand.",
        ),
        (
            "moves whole pairs",
            "return x",
            "x[:, :-1, 0] = x[:, :-1, 0].gather(1, order)\n    return x",
            "You move whole pairs: each letter keeps its digit, and the task is as easy as before. Move the digits "
            "alone.",
        ),
        (
            "moves the letters",
            "x[:, :-1, 1]",
            "x[:, :-1, 0]",
            "That breaks the link, too, but by moving the letters. Let them stay, and deal out the digits.",
        ),
        (
            "takes one order for all sentences",
            "x[:, :-1, 1].gather(1, order)",
            "x[:, order[0], 1]",
            "All sentences of your batch share one order. `order` has a row for each of them.",
        ),
        (
            "takes digits from other sentences",
            "gather(1, order)",
            "gather(0, order)",
            "Your digits come from other sentences, so the answer may stand nowhere in its own. `gather` takes the "
            "dimension along which to look.",
        ),
        (
            "reads the order the other way round",
            "gather(1, order)",
            "gather(1, order.argsort(dim=1))",
            "As a control yours is as good, but you read `order` the other way round: it says from which pair a digit "
            "comes, not to which it goes.",
        ),
        (
            "overwrites digits that are still needed",
            "x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)",
            "for j in range(task.pairs):\n        x[:, j, 1] = x[range(len(x)), order[:, j], 1]",
            "You move digits one after the other and overwrite some that a later pair still needs. Read all of them "
            "before you write.",
        ),
        "makes the answers follow",
        (
            "shuffles the answers",
            "x[:, :-1, 1] = x[:, :-1, 1].gather(1, order)",
            "answers = answers[torch.randperm(len(x), generator=generator)]",
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


@control_run.mistake
def makes_the_answers_follow(task, generator):
    """Your answers follow the digits to their new letters: that is the same task again, and can be learned."""
    x, _ = control_batch(task, generator)
    asked = x[:, -1, : task.questions] - task.letters * torch.arange(1, task.questions + 1)  # (b, questions)
    place = (x[:, None, :-1, 0] == asked.unsqueeze(2)).int().argmax(dim=2)  # of the letter asked for
    return x, x[:, :-1, 1].gather(1, place) - 3 * task.letters


def right_answers(shares, digits, values, output_layer):
    """How often each answer is right, (2,); shares (num_heads, 2), digits (b, 2)."""
    contexts = shares @ values[digits]  # (num_heads, 2) @ (b, 2, width) -> (b, num_heads, width)
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=0)


def read_outs(generator):
    """One head and more, read out at random, and then by the identity."""
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
        output_layer.bias.data = torch.linspace(0, 0.01, 12)  # so that no scores are equal
        digits = torch.cartesian_prod(torch.arange(6), torch.arange(6))
        yield torch.tensor(shares), digits, torch.eye(6), output_layer


too_few_heads = Exercise(
    name="too_few_heads",
    title="Too few heads",
    prompt="A row of `digits` holds the two digits that a sentence asks for; a digit's value is its row of "
    "`values`, (n, width), in all heads. `shares[h]` is how much of either value head h hands out. The "
    "layer `output_layer` takes the contexts side by side and gives n scores for the first answer, then n "
    "for the second. How often is each answer right?",
    solution=right_answers,
    cases=lambda generator: list(read_outs(generator)),
    mistakes=[
        (
            "hands out the values unmixed",
            "shares @ values",
            "values",
            "You give the read-out both values, one beside the other. Heads hand out mixtures, one each.",
        ),
        (
            "exchanges heads and pairs",
            "shares @",
            "shares.T @",
            "You use a column of `shares` for a head. A row is a head: its shares of the first and the second digit.",
        ),
        (
            "lets the heads take turns",
            "contexts.flatten(1)",
            "contexts.transpose(1, 2).flatten(1)",
            "Your heads take turns in the context. All entries of the first head should come first.",
        ),
        (
            "lets the questions take turns",
            "view(len(digits), 2, -1)",
            "view(len(digits), -1, 2).transpose(1, 2)",
            "You deal the scores out in turns. The first n of them belong to the first answer.",
        ),
        (
            "takes the answers in any order",
            "(scores.argmax(dim=-1) == digits)",
            "(scores.argmax(dim=-1).unsqueeze(2) == digits.unsqueeze(1)).any(dim=2)",
            "You count a digit as right wherever it was asked for. The order matters: first answer, first digit.",
        ),
        (
            "counts sentences with both right",
            ".float().mean(dim=0)",
            ".all(dim=1).float().mean()",
            "You count the sentences with both answers right. Count each answer by itself: two numbers.",
        ),
        (
            "averages over the questions",
            "mean(dim=0)",
            "mean(dim=1)",
            "You give a number a sentence. Average over the sentences: one number for each of the two answers.",
        ),
        (
            "averages over everything",
            "mean(dim=0)",
            "mean()",
            "One number hides what this is about: which of the two answers is lost. Give a number for each.",
        ),
    ],
    hints=[
        "`values[digits]` has the shape (b, 2, width). Which product mixes its two rows, once for each head?",
        "`shares @ values[digits]` is (b, num_heads, width). `flatten(1)` puts the heads side by side.",
        "`output_layer(...).view(len(digits), 2, -1).argmax(dim=-1)` guesses. Compare with `digits`, take the mean.",
    ],
    why="Take one head with shares w and 1 - w, and the second answer's scores: in (a, a) digit a leads by "
    "some p, in (b, b) b by some q. All is linear, so in (a, b) b leads by (1 - w)q - wp, in (b, a) a by "
    "(1 - w)p - wq. Both are above 0 only if their sum (1 - 2w)(p + q) is: if w < 1/2. The first answer "
    "needs w > 1/2.",
    moral="Ask for all pairs of digits with one head, `[[0.7, 0.3]]`: whatever values and linear read-out you "
    "take, some answer is wrong. With two heads, `torch.eye(2)`, all can be right.",
)


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
    prompt="`model`, in eval mode, scores the next character at every position of `x`; `targets` are the right "
    "ones. Return by how many nats the usual loss (all positions at once) is lower than the honest one: "
    "the mean, over all lengths n from 1 to num_tokens, of the loss at the end of a prefix of n "
    "characters. It can be negative.",
    solution=too_low_by,
    cases=lambda generator: list(small_models(generator)),
    mistakes=[
        (
            "shows the model the whole window",
            "model(x[:, :n])[:, -1]",
            "model(x)[:, n - 1]",
            "Your model sees the whole window each time, so your honest loss is the usual one. What comes after a "
            "prefix must not be in what the model is given.",
        ),
        (
            "hides the future behind zeros",
            "model(x[:, :n])[:, -1]",
            "model(x * (torch.arange(x.shape[1]) < n))[:, n - 1]",
            "You put the code 0 where the future was. But 0 is a character, and a leaky model reads it. Give it "
            "nothing after the prefix.",
        ),
        (
            "averages over the whole prefix",
            "model(x[:, :n])[:, -1], targets[:, n - 1]",
            "model(x[:, :n]).flatten(0, 1), targets[:, :n].flatten()",
            "You take the loss of all positions of each prefix. All but its last can see what comes next in it.",
        ),
        (
            "takes the longest prefix alone",
            "honest / x.shape[1]",
            "F.cross_entropy(model(x)[:, -1], targets[:, -1])",
            "You take the last position of the whole window. It is honest, but it is one length of many, and the "
            "only one at which a leaky model was trained honestly.",
        ),
        (
            "forgets the past",
            "x[:, :n]",
            "x[:, n - 1 : n]",
            "You show the model one character at a time. The prefix before it is honest reading: leave it in.",
        ),
        (
            "takes the target after next",
            "honest = 0.0",
            "honest, x, targets = 0.0, x[:, :-1], targets[:, 1:]",  # so targets[:, n - 1] is one too far on
            "You compare with the target after next. `targets` starts one on: which entry follows n characters?",
        ),
        (
            "subtracts the wrong way round",
            "honest / x.shape[1] - usual",
            "usual - honest / x.shape[1]",
            "Both losses are right, and the sign is not: how much *lower* than the honest loss is the usual one?",
        ),
        (
            "gives the honest loss",
            " - usual",
            "",
            "That is the honest loss. How far below it is the usual one?",
        ),
        (
            "leaves out the longest prefix",
            "honest = 0.0",
            "honest, x = 0.0, x[:, :-1]",  # so the loop and the mean stop one short
            "You stop short of the whole window: it is a prefix as well. (`range` leaves its end out.)",
        ),
    ],
    hints=[
        "Two losses and a difference. For the honest one: what may the model see when it guesses character n + 1?",
        "A loop over n: `model(x[:, :n])[:, -1]` are the scores after n characters. Which column of `targets` is next?",
        "Average `F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])` over n, then subtract the usual loss.",
    ],
    why="What follows a prefix is not in what the model is given, so no mask has to be trusted. With a mask "
    "that works, position n of the whole window sees that prefix and nothing else, so both losses agree up to "
    "rounding.",
    moral="About 0 for a model whose mask works; far above 0, the loss looked too good.",
)


EXERCISES = [map_to_come, one_training_step, control_run, too_few_heads, how_much_too_low]
progress = Progress(EXERCISES)
