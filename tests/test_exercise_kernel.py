"""A check runs an answer as it was written, once for each input, and leaves the rest of the kernel as it was."""

import random
import sys
import warnings
from functools import wraps

import numpy as np
import pytest
import torch
from torch.nn.modules import module

from attention_course.exercises import MODULES, practice

ALL = [pytest.param(exercise, id=exercise.name) for number in MODULES for exercise in practice(number).EXERCISES]


def kernel():
    """What the next cell could find changed."""
    hooks = {name: [*there] for name, there in vars(module).items() if name.startswith("_global_") and there}
    numbers = torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())
    modes = torch.is_grad_enabled(), torch.get_default_dtype(), str(torch._tensor_str.PRINT_OPTS)
    return hooks, numbers, modes, [*warnings.filters], sys.gettrace(), sys.stdout


def careless(answer, kept):
    """An answer that also changes what it's given and what torch does next, and appends to a list of the notebook."""

    @wraps(answer, updated=())
    def changes_much(*arguments, **named):
        kept.append(len(arguments))
        result = answer(*arguments, **named)
        torch.manual_seed(7)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                argument.detach().zero_()
            elif isinstance(argument, list):
                argument.clear()
            elif isinstance(argument, torch.nn.Module):
                argument.eval().requires_grad_(False)
                for parameter in argument.parameters():
                    parameter.zero_()
        return result

    return changes_much


@pytest.mark.parametrize("exercise", ALL[::4])
def test_no_check_changes_the_kernel(exercise):
    kept = [1, 2, 3]
    before = kernel()
    for answer in careless(exercise.solution, kept), exercise.solution:
        reply = exercise.check(answer)
        assert kernel() == before
    assert reply.right  # whatever the careless one did
    exercise.wrong_ways()
    assert kernel() == before


@pytest.mark.parametrize("exercise", ALL[::10])
def test_an_answer_runs_once_for_each_input(exercise):
    once, kept = [], []
    exercise.outcomes(lambda *arguments, **named: once.append(0))
    names = {"kept": kept}
    exec("def answer(*arguments, **named):\n    kept.append(0)", names)
    there = dict(names)
    assert exercise.check(names["answer"]).right is False
    assert names == there
    assert kept == once
