"""A training run to watch: its task, its model and the measurements so far."""

from collections import namedtuple
from functools import cached_property, lru_cache

import torch
from torch.nn import functional as F

from attention_course.build import build_layer
from attention_helpers import attention_maps
from attention_helpers.training.characters import CharacterModel, Characters, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training

QUESTIONS = {"two questions": 2, "one question": 1}
NEXT, D_IN = "next character", 32  # the width of the lookup's embeddings, whatever d_out
TASKS = [*QUESTIONS, NEXT]
HELD_OUT = 2_718_281_828  # the held-out examples' seed; the first 10,000 steps of no seed use it
HONEST_EVERY = 20  # steps, because the honest loss takes as long as ten pictures
LEARNED, STEADY = 0.99, 20  # a task is learned once the less accurate answer is so accurate for so many steps


# After a step, the loss in nats and the accuracy of the less accurate answer: in training (loss, right), as means over
# the batches since the previous measurement, so NaN before the first step; and held-out (held_loss, accuracy).
Measured = namedtuple("Measured", "step loss held_loss right accuracy")
# The loss with no future to read, and the usual loss, in nats, on the same held-out text.
Honest = namedtuple("Honest", "step loss usual")


@lru_cache
def task_of(name):
    """A task by name, with its held-out x and answers, which are the same for all seeds and sizes."""
    if name == NEXT:
        task = Characters(load_text())
        return task, *task.unseen()
    task = LookupTask(QUESTIONS[name])
    return task, *task.batch(torch.Generator().manual_seed(HELD_OUT))


class TrainingRun:
    """A training run from a seed, measured on held-out examples in eval mode, where dropout does nothing.

    measured: a Measured for the start and for each take; honest: for the next character, an Honest about every
    HONEST_EVERY steps. learned: the step from which on held-out accuracies were at least LEARNED for STEADY steps, or
    None; it stays when one dips later. predicted: the answer to the first held-out example, as token ids.
    """

    def __init__(self, task, d_out, num_heads, dropout, learning_rate, mask, seed):
        self.name, self.learning_rate, self.seed = task, learning_rate, seed
        self.task, self.x, self.answers = task_of(task)
        if task == NEXT:  # this model adds what attention gives to what it got, so d_in is d_out
            sizes = len(self.task.vocabulary), self.task.window, d_out, num_heads, dropout
            self.model = build_layer(CharacterModel, seed, *sizes, leaky=mask == "leaky")
        else:
            self.model = build_layer(LookupModel, seed, self.task, D_IN, num_heads, d_out, dropout)
        self.step, self.since, self.learned, self.measured, self.honest = 0, None, None, [], []
        self.measure([], [])

    @cached_property
    def training(self):
        """Made at the first step, so that the first picture needn't wait for it."""
        return Training(self.model, self.task, self.learning_rate, self.seed, keep=False)

    @torch.enable_grad()
    def take(self, steps):
        """Take `steps` steps, then measure."""
        for _ in range(steps):
            self.training.take_step()
        before, self.step = self.step, self.training.step
        self.measure(self.training.losses[-steps:], self.training.accuracies[-steps:])
        del self.training.losses[:], self.training.accuracies[:]
        if self.name == NEXT and self.step // HONEST_EVERY > before // HONEST_EVERY:
            loss = prefix_losses(self.model, self.x, self.answers).mean().item()
            self.honest.append(Honest(self.step, loss, self.measured[-1].held_loss))

    @torch.no_grad()
    def measure(self, losses, accuracies):
        outputs = self.model.eval()(self.x)
        accuracy = self.task.accuracy(outputs, self.answers).min().item()
        held_loss = self.task.loss(outputs, self.answers).item()
        loss = sum(losses) / len(losses) if losses else float("nan")
        right = torch.stack(accuracies).mean(dim=0).min().item() if accuracies else float("nan")
        self.measured.append(Measured(self.step, loss, held_loss, right, accuracy))
        self.predicted = outputs[0].argmax(dim=-1)
        self.since = None if accuracy < LEARNED else self.step if self.since is None else self.since
        if self.learned is None and self.since is not None and self.step - self.since >= STEADY:
            self.learned = self.since

    @torch.no_grad()
    def map(self):
        """The attention weights for the first held-out example, (num_heads, num_tokens, num_tokens)."""
        return attention_maps(self.model.eval(), self.x[:1])[0][0]

    @torch.no_grad()
    def heads_read(self):
        """For each answer to the first held-out example, the head that adds most to the predicted digit's logit.

        From each logit the mean of all digits' is subtracted, because what's added to all of them decides nothing.
        """
        model, contexts = self.model.eval(), []
        layer = model.attention
        hook = layer.out_proj.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0][0, -1]))
        model(self.x[:1])
        hook.remove()
        matrix = model.output_layer.weight @ layer.out_proj.weight  # (questions * digits, d_out)
        sizes = len(self.predicted), -1, layer.num_heads, layer.head_dim
        parts = (matrix * contexts[0]).view(sizes).sum(dim=-1)  # (questions, digits, num_heads)
        added = parts - parts.mean(dim=1, keepdim=True)
        return [part[digit].argmax().item() for part, digit in zip(added, self.predicted, strict=True)]

    def example(self):
        """The first held-out example by name: tokens, the one that asks, those wanted, the model's answers, the right.

        For the next character, a token asks that has both a past and a future to look at, and none is wanted.
        """
        both = self.predicted, self.answers[0]
        if self.name == NEXT:
            names = [{" ": "␣", "\n": "↵"}.get(each, each) for each in self.task.vocabulary]
            tokens, asks, wanted = [names[token_id] for token_id in self.x[0].tolist()], self.x.shape[1] * 5 // 8, []
            predicted, answers = ([names[each[asks]]] for each in both)
        else:
            tokens = self.task.words(self.x[0])
            asks, letters = len(tokens) - 1, [pair[0] for pair in tokens[:-1]]
            wanted = [letters.index(letter) for letter in tokens[-1].removesuffix("?").strip()]
            predicted, answers = ([str(digit) for digit in each.tolist()] for each in both)
        read = [] if self.name == NEXT else self.heads_read()
        answered = {"predicted": predicted, "answers": answers, "read_from": read}
        return answered | {"tokens": tokens, "asks": asks, "wanted": wanted}


@torch.no_grad()
def prefix_losses(model, x, targets):
    """The loss at the last character of every prefix of x (windows, window), where there is no future to read.

    Returns (window,), in nats; entry n - 1 is for prefixes of n characters. Puts the model in eval mode.
    """
    model.eval()
    losses = [F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1]) for n in range(1, x.shape[1] + 1)]
    return torch.stack(losses)
