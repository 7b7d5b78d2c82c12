"""A plain training loop that you can watch, interrupt and resume."""

import signal
import threading
from contextlib import contextmanager
from typing import NamedTuple

import torch

from ..dropout import draw_dropout_from
from ..probes import attention_maps


class Snapshot(NamedTuple):
    """A training run after `step` steps; the loss is in nats."""

    step: int
    loss: float  # on a separate batch, the same for all snapshots
    accuracy: torch.Tensor  # (questions,), on that batch
    state: dict  # the model's state_dict
    maps: torch.Tensor  # (examples, num_heads, num_tokens, num_tokens)


def is_kept(step):
    """Which steps a run keeps: all up to 30, every 10th up to 100, then every 50th."""
    return step <= 30 or step % (10 if step <= 100 else 50) == 0


FAR_APART = 2_654_435_769  # 2**32 / golden ratio, so that a few thousand seeds start far apart


class Training:
    """A model in training: run(steps) continues from the current step, and you can interrupt it at any time.

    model: has outputs = model(x). task: has batch(generator), loss and accuracy. The batch and dropout masks of a step
    depend only on seed and step, so an interrupted and resumed run ends exactly where an uninterrupted one does. keep:
    whether to keep snapshots, see Snapshot; they're measured on a batch of their own, examples and answers. Losses are
    in nats.
    Errors: ValueError if the learning rate isn't above 0, or if the model doesn't fit the task.
    """

    def __init__(self, model, task, learning_rate=1e-2, seed=0, keep=True):
        if not learning_rate > 0:  # torch allows 0, which trains nothing
            raise ValueError(f"learning_rate must be above 0, got {learning_rate}")
        self.generator = torch.Generator()
        self.model = draw_dropout_from(model, self.generator)
        self.task = task
        self.seed = seed
        self.keep = keep
        self.step = 0
        self.losses = []
        self.accuracies = []
        self.snapshots = []
        self.optimizer = torch.optim.AdamW(model.parameters(), learning_rate)
        self.examples, self.answers = self.make_batch(2**31)  # no run takes that many steps
        self.check_fit()
        if keep:
            self.keep_snapshot()

    @torch.no_grad()
    def check_fit(self):
        """ValueError unless the model accepts the task's x, and the task's loss accepts the model's outputs."""
        try:
            self.task.loss(self.model.eval()(self.examples), self.answers)
        except (IndexError, RuntimeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise ValueError(f"model must fit the task's x and answers, but with them came {said}") from error

    def make_batch(self, step):
        """The batch of a step, the same one each time."""
        self.generator.manual_seed((self.seed * FAR_APART + step) % 2**32)  # on a CPU torch uses only these 32 bits
        return self.task.batch(self.generator)

    def take_step(self):
        """One complete training step."""
        x, answers = self.make_batch(self.step)
        self.optimizer.zero_grad()
        outputs = self.model.train()(x)
        loss = self.task.loss(outputs, answers)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.accuracies.append(self.task.accuracy(outputs, answers))
        self.step += 1

    def run(self, steps):
        """Take `steps` more steps. Returns self. An interrupt stops between two of them; call run again to continue."""
        self.snapshots = [snapshot for snapshot in self.snapshots if is_kept(snapshot.step)]
        with held_interrupt() as interrupted:
            for _ in range(steps):
                if interrupted():
                    break
                self.take_step()
                if self.keep and is_kept(self.step):
                    self.keep_snapshot()
        if self.keep and self.snapshots[-1].step != self.step:
            self.keep_snapshot()
        if interrupted():
            print(f"Stopped after step {self.step}. What was learned is kept: run(...) goes on from here.")
        return self

    @torch.no_grad()
    def keep_snapshot(self):
        """Store the model's current state, with its loss, accuracy and maps on the separate examples."""
        outputs = self.model.eval()(self.examples)
        loss = self.task.loss(outputs, self.answers).item()
        state = {name: value.clone() for name, value in self.model.state_dict().items()}
        maps = attention_maps(self.model, self.examples[:8])[0]
        self.snapshots.append(Snapshot(self.step, loss, self.task.accuracy(outputs, self.answers), state, maps))


@contextmanager
def held_interrupt():
    """Hold back interrupts, so that each step is completed. Yields a function that returns whether one came.

    Outside the main thread, where no interrupts arrive, it returns False.
    """
    came, main = [], threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True)) if main else None
    try:
        yield lambda: bool(came)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
