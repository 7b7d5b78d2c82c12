"""The look-up task, the model that answers it, and a training loop that can be stopped and gone on with."""

import signal
import threading

import pytest
import torch
from torch import nn

from attention_helpers import Dropout, max_difference
from attention_helpers.beyond.training import LookUp, Reader, Training, held_interrupt, worth_keeping


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("questions", [1, 2])
def test_a_question_asks_for_letters_that_are_there_and_the_answer_is_their_digit(questions):
    task = LookUp(questions=questions, letters=7, digits=5, pairs=4, batch_size=50)
    x, answers = task.batch(generator())
    assert x.shape == (50, 5, 2)
    assert answers.shape == (50, questions)
    assert x.max() < task.num_symbols
    for tokens, answer in zip(x, answers, strict=True):
        *pairs, question = task.words(tokens)
        digit_of = dict(pair.split() for pair in pairs)
        assert len(digit_of) == 4  # no letter twice
        asked = question.removesuffix(" ?")
        assert [int(digit_of[letter]) for letter in asked] == answer.tolist()
        assert len(set(asked)) == questions


def test_every_symbol_of_a_look_up_is_met():
    task = LookUp(questions=2)
    x, _ = task.batch(generator())
    assert set(x.flatten().tolist()) == set(range(task.num_symbols - 1))  # two questions leave no blank
    assert LookUp().batch(generator())[0].max() == LookUp().blank


@pytest.mark.parametrize(
    ("sizes", "error", "said"),
    [
        ({"questions": 3}, ValueError, "questions must be 1 or 2, got 3"),
        ({"pairs": 11}, ValueError, "pairs=11, letters=10"),
        ({"letters": 27}, ValueError, "letters=27"),
        ({"questions": 2, "pairs": 1}, ValueError, "questions=2, pairs=1"),
        ({"digits": 0}, ValueError, "digits must be at least 1, got 0"),
        ({"batch_size": 2.5}, TypeError, "batch_size must be a whole number, got 2.5"),
    ],
)
def test_a_look_up_of_impossible_size(sizes, error, said):
    with pytest.raises(error, match=said):
        LookUp(**sizes)


def test_a_score_a_question():
    outputs = torch.zeros(4, 2, 3)
    outputs[:, 0, 1] = 1.0
    outputs[0, 1, 2] = 1.0
    answers = torch.tensor([[1, 2], [1, 2], [1, 2], [0, 0]])
    assert LookUp(questions=2).score(outputs, answers).tolist() == [0.75, 0.5]


@pytest.mark.parametrize("hidden", [0, 8])
def test_a_reader_answers_each_question_and_shows_its_maps(hidden):
    task = LookUp(questions=2, batch_size=3)
    reader = Reader(task, width=12, num_heads=2, hidden=hidden)
    x, _ = task.batch(generator())
    assert reader(x).shape == (3, 2, 10)
    assert reader.maps(x).shape == (3, 2, 7, 7)
    assert max_difference(reader.maps(x).sum(dim=-1), torch.ones(3, 2, 7)) < 1e-6


def test_one_head_and_two_have_as_many_parameters():
    one, two = (Reader(LookUp(questions=2), num_heads=heads) for heads in (1, 2))
    assert sum(p.numel() for p in one.parameters()) == sum(p.numel() for p in two.parameters())


def test_what_is_kept_is_dense_at_first():
    kept = [step for step in range(401) if worth_keeping(step)]
    assert kept[:31] == list(range(31))
    assert kept[31:] == [40, 50, 60, 70, 80, 90, 100, 150, 200, 250, 300, 350, 400]


def test_an_interrupt_waits_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    with held_interrupt() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is before
    assert interrupted()


def test_outside_the_main_thread_there_is_no_interrupt():
    said = []

    def work():
        with held_interrupt() as interrupted:
            said.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [False]


class Interrupting(LookUp):
    """A task during whose loss an interrupt arrives at given steps."""

    def __init__(self, at, **sizes):
        super().__init__(**sizes)
        self.at, self.calls = set(at), 0

    def loss(self, outputs, answers):
        if torch.is_grad_enabled():  # not for a snapshot
            self.calls += 1
            if self.calls in self.at:
                signal.raise_signal(signal.SIGINT)
        return super().loss(outputs, answers)


class Dropping(Reader):
    """A Reader with dropout before its read-out, and on the weights."""

    def __init__(self, task):
        super().__init__(task, width=8)
        self.attention.dropout.p = 0.3
        self.read_out = nn.Sequential(Dropout(0.2), self.read_out)


def trained(task, goes, make=Dropping, **options):
    torch.manual_seed(1)
    training = Training(make(task), task, seed=5, **options)
    for steps in goes:
        training.run(steps)
    return training


def same(one, other):
    """Whether two runs stand at the same point, to the last bit."""
    states = [run.model.state_dict() for run in (one, other)]
    snapshots = zip(one.snapshots, other.snapshots, strict=True)
    return (
        one.step == other.step
        and one.losses == other.losses
        and all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        and all(a.step == b.step and a.loss == b.loss and torch.equal(a.maps, b.maps) for a, b in snapshots)
    )


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 7, 20, 33, 39])
def test_an_interrupted_run_that_goes_on_ends_where_one_in_one_go_ends(step, capsys):
    whole = trained(LookUp(batch_size=16), [40])
    torch.rand(3)  # the notebook's random numbers are not those of the run
    stopped = trained(Interrupting([step], batch_size=16), [40])
    assert stopped.step == step
    assert f"Stopped after step {step}" in capsys.readouterr().out
    assert stopped.snapshots[-1].step == step
    assert torch.isfinite(stopped.model(stopped.examples)).all()
    stopped.run(40 - step)
    assert same(whole, stopped)
    assert not same(whole, trained(LookUp(batch_size=16), [39]))


@pytest.mark.slow
def test_a_run_stops_when_it_is_solved_and_leaves_the_random_numbers_alone():
    task = LookUp()
    torch.manual_seed(0)
    training = Training(Reader(task), task)
    state = torch.get_rng_state()
    training.run(200, until=0.99)
    assert training.scores[-1].min() >= 0.99
    assert all(score.min() < 0.99 for score in training.scores[:-1])
    assert training.step < 40
    steps = training.step
    assert training.run(10, until=0.99).step == steps  # solved already
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_a_snapshot_is_the_model_as_it_stood():
    training = trained(LookUp(batch_size=16), [12], make=lambda task: Reader(task, width=8))
    snapshot = training.snapshots[5]
    again = Reader(training.task, width=8)
    again.load_state_dict(snapshot.state)
    assert snapshot.step == 5
    assert torch.equal(again.eval().maps(training.examples[:8]), snapshot.maps)
    assert training.task.loss(again(training.examples), training.answers).item() == pytest.approx(snapshot.loss)
    assert [s.step for s in training.snapshots] == list(range(13))


@pytest.mark.slow
def test_a_learning_rate_that_is_none():
    task = LookUp()
    for rate in (0, -1.0):
        with pytest.raises(ValueError, match="learning_rate must be above 0"):
            Training(Reader(task), task, learning_rate=rate)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        Training(Reader(task), task, seed=-1)
    with pytest.raises(TypeError, match=r"steps must be a whole number, got 1\.5"):
        Training(Reader(task), task).run(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_one_head_learns_to_look_up(seed):
    task = LookUp()
    torch.manual_seed(seed)
    training = Training(Reader(task), task, seed=seed)
    assert training.snapshots[0].score < 0.25  # chance is 0.1
    training.run(60, until=0.99)
    last = training.snapshots[-1]
    assert training.step <= 30
    assert last.score > 0.95
    row = last.maps[:, 0, -1]  # (examples, num_tokens): what the question reads
    asked = [[token[0] for token in task.words(x)[:-1]].index(task.words(x)[-1][0]) for x in training.examples[:8]]
    assert (row.argmax(dim=-1) == torch.tensor(asked)).float().mean() > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_two_questions_need_two_heads_when_the_read_out_is_linear(seed):
    scores = {}
    for heads in (1, 2):
        task = LookUp(questions=2)
        torch.manual_seed(seed)
        training = Training(Reader(task, num_heads=heads), task, seed=seed, keep=False).run(400)
        scores[heads] = torch.stack(training.scores[-20:]).mean(dim=0)
    assert scores[1].min() < 0.6
    assert scores[2].min() > 0.99
