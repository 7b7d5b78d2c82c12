"""Watch attention learn: a look-up task with a known right map, a model that attends once, a plain training loop."""

import signal
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from .._checks import check_codes, check_finite, check_flag, check_number, check_size
from ..dropout import Dropout
from ..layers import MultiHeadAttention


class LookUp:
    """Pairs of a letter and a digit, then a question: a letter, or two, whose digits are asked for.

    batch(generator) returns x, symbols (batch_size, pairs + 1, 2), and answers, digits (batch_size, questions). Each
    token holds two symbols: a pair its letter and its digit, the question the letters asked for (or one and a blank).
    The same letter is another symbol in a pair, in the first question and in the second.
    Errors: TypeError or ValueError for a size that is no whole number from 1 on, for more pairs than letters, more
    than 26 letters, or questions other than 1 or 2.
    """

    def __init__(self, questions=1, letters=10, digits=10, pairs=6, batch_size=128):
        self.questions, self.letters = check_size("questions", questions), check_size("letters", letters)
        self.digits, self.pairs = check_size("digits", digits), check_size("pairs", pairs)
        self.batch_size = check_size("batch_size", batch_size)
        if questions > 2:
            raise ValueError(f"questions must be 1 or 2, got {questions}")
        if not questions <= pairs <= letters <= 26:
            raise ValueError(
                f"there must be questions <= pairs <= letters <= 26, got questions={questions}, pairs={pairs}, "
                f"letters={letters}"
            )
        self.blank = 3 * letters + digits
        self.num_symbols = self.blank + 1

    def batch(self, generator):
        shape = self.batch_size, self.letters
        letters = torch.rand(shape, generator=generator).argsort(dim=1)[:, : self.pairs]  # no letter twice
        digits = torch.randint(self.digits, letters.shape, generator=generator)
        asked = torch.rand(letters.shape, generator=generator).argsort(dim=1)[:, : self.questions]
        pairs = torch.stack((letters, 3 * self.letters + digits), dim=-1)  # (batch_size, pairs, 2)
        question = torch.full((self.batch_size, 1, 2), self.blank)
        question[:, 0, : self.questions] = letters.gather(1, asked) + self.letters * torch.arange(1, self.questions + 1)
        return torch.cat((pairs, question), dim=1), digits.gather(1, asked)

    def loss(self, outputs, answers):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), answers.flatten())

    def score(self, outputs, answers):
        """The share of right answers to each question, (questions,)."""
        return (outputs.argmax(dim=-1) == answers).float().mean(dim=0)

    def words(self, tokens):
        """A row of x, (pairs + 1, 2), as one would write it: ["B 7", "A 3", ..., "A ?"]."""
        letter = [chr(ord("A") + symbol % self.letters) for symbol in tokens[:, 0].tolist()]
        pairs = [f"{a} {symbol - 3 * self.letters}" for a, symbol in zip(letter, tokens[:-1, 1].tolist(), strict=False)]
        second = chr(ord("A") + int(tokens[-1, 1]) % self.letters) if self.questions == 2 else ""
        return [*pairs, f"{letter[-1]}{second} ?"]


class Reader(nn.Module):
    """Embed symbols, attend once, and read the answers off the last token's context vector.

    x: symbols (b, num_tokens, 2) of a LookUp. Returns (b, questions, digits), a score for each
    digit. The read-out is linear; with hidden, a layer of so many GELUs stands before it. Errors:
    see MultiHeadAttention; TypeError or ValueError too for an x of another task.
    """

    def __init__(self, task, width=32, num_heads=1, hidden=0):
        super().__init__()
        self.task = task
        self.embed = nn.Embedding(task.num_symbols, check_size("width", width))
        self.attention = MultiHeadAttention(width, width, task.pairs + 1, 0.0, num_heads)
        inner = [nn.Linear(width, check_size("hidden", hidden)), nn.GELU()] if hidden else []
        self.read_out = nn.Sequential(*inner, nn.Linear(hidden or width, task.questions * task.digits))

    def embedded(self, x):
        check_codes("x", x, self.task.num_symbols, self.task.pairs + 1, symbols=(2,))
        return self.embed(x).sum(dim=2)  # (b, num_tokens, width): a token is the sum of its symbols

    def forward(self, x):
        context = self.attention(self.embedded(x))[:, -1]  # (b, width)
        return self.read_out(context).view(len(x), self.task.questions, self.task.digits)

    def maps(self, x):
        """The attention weights (b, num_heads, num_tokens, num_tokens)."""
        return self.attention.steps(self.embedded(x)).weights


class Snapshot(NamedTuple):
    """A training run as it stood after `step` steps: its loss is in nats."""

    step: int
    loss: float  # of a batch of its own, the same for all snapshots
    score: torch.Tensor  # (questions,), of the same examples
    state: dict  # the model's parameters by name
    maps: torch.Tensor  # (examples, num_heads, num_tokens, num_tokens)


def worth_keeping(step):
    """Which steps a run keeps: all to 30, every 10th to 100, every 50th beyond."""
    return step <= 30 or step % (10 if step <= 100 else 50) == 0


FAR_APART = 2_654_435_769  # 2**32 by the golden ratio: so the steps of a few thousand seeds begin far from each other


class Training:
    """A model on its way: run(steps) trains on from where it stands, and may be interrupted at any time.

    model: outputs = model(x), and maps(x) if its attention is to be kept. task: batch(generator), loss, score.
    The batch of a step, and dropout's masks in it, depend on seed and step alone: a run that was interrupted and went
    on ends where one in one go ends. snapshots: see Snapshot; examples: x whose maps they hold, drawn for that alone.
    The loss is in nats. Errors: TypeError or ValueError for a learning rate that is no positive number, a seed outside
    [0, 2**32), or a model that does not fit the task.
    Source: AdamW, Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """

    def __init__(self, model, task, learning_rate=1e-2, seed=0, keep=True, device="cpu"):
        if check_finite("learning_rate", learning_rate) <= 0:
            raise ValueError(f"learning_rate must be above 0, got {learning_rate}")
        self.seed, self.keep = check_size("seed", seed, minimum=0), check_flag("keep", keep)
        if self.seed >= 2**32:
            raise ValueError(f"seed must be below 2**32, got {seed}")
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        self.model, self.task, self.device = model.to(device), task, device
        self.step, self.losses, self.scores, self.snapshots = 0, [], [], []
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
        self.generator = torch.Generator()
        for module in model.modules():
            if isinstance(module, Dropout):
                module.generator = self.generator
        self.examples, self.answers = self.drawn(2**31)  # no run takes so many steps
        self.check_fit()
        if keep:
            self.keep_snapshot()

    @torch.no_grad()
    def check_fit(self):
        """ValueError unless the model takes what the task asks, and the task what the model answers."""
        try:
            self.task.loss(self.model.eval()(self.examples), self.answers)
        except (IndexError, RuntimeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise ValueError(f"model must fit the task's x and answers, but with them came {said}") from error

    def drawn(self, step):
        """The batch of a step: the same each time it is asked for."""
        self.generator.manual_seed((self.seed * FAR_APART + step) % 2**32)  # on a CPU torch heeds these 32 bits alone
        return [part.to(self.device) for part in self.task.batch(self.generator)]

    def take_step(self):
        """One step of training, whole."""
        x, answers = self.drawn(self.step)
        self.optimizer.zero_grad()
        outputs = self.model.train()(x)
        loss = self.task.loss(outputs, answers)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.scores.append(self.task.score(outputs, answers))
        self.step += 1

    def run(self, steps, until=None, name="training"):
        """Take `steps` more steps, fewer if the weakest score of a batch reaches `until`, or at an interrupt.

        Returns self. An interrupt ends the run between two steps; run again to go on. Errors: TypeError or ValueError
        for steps that are no whole number from 1 on, or an `until` outside (0, 1].
        """
        from tqdm.auto import tqdm  # a widget in a notebook, a line in a terminal

        if until is not None and not 0 < check_number("until", until) <= 1:  # also false for NaN
            raise ValueError(f"until must be above 0 and at most 1, got {until!r}")
        self.snapshots = [snapshot for snapshot in self.snapshots if worth_keeping(snapshot.step)]
        with held_interrupt() as interrupted, tqdm(total=check_size("steps", steps), desc=name) as bar:
            for taken in range(steps):
                reached = until is not None and self.scores and self.scores[-1].min() >= until
                if reached:
                    end_here(bar, taken)
                if reached or interrupted():
                    break
                self.take_step()
                if self.keep and worth_keeping(self.step):
                    self.keep_snapshot()
                bar.update()
                bar.set_postfix(loss=f"{self.losses[-1]:.3f}", refresh=False)
        if self.keep and self.snapshots[-1].step != self.step:
            self.keep_snapshot()
        if interrupted():
            print(f"Stopped after step {self.step}. What was learned is kept: run(...) goes on from here.")
        return self

    @torch.no_grad()
    def keep_snapshot(self):
        """Remember the model as it stands, with its loss, score and maps on examples of its own."""
        outputs = self.model.eval()(self.examples)
        loss = self.task.loss(outputs, self.answers).item()
        state = {name: value.clone() for name, value in self.model.state_dict().items()}
        maps = self.model.maps(self.examples[:8])
        self.snapshots.append(Snapshot(self.step, loss, self.task.score(outputs, self.answers), state, maps))


def end_here(bar, taken):
    """Call the steps taken all there are to take: in a notebook, a bar that is not full at its end turns red."""
    start = bar.start_t
    bar.reset(total=taken)
    bar.start_t = bar.last_print_t = start
    bar.update(taken)


@contextmanager
def held_interrupt():
    """Let an interrupt wait: the function that this yields says whether one came.

    So a step is never torn. Outside the main thread, where no interrupt arrives, it says no.
    """
    came = []
    try:
        before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    except ValueError:
        yield lambda: False
        return
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)
