"""What `make bench` says of its times. The times themselves are no test: other work on the machine moves them."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from tools.bench import bench, measure_suite


def test_summary_gives_median_and_ninth_tenth():
    assert bench.summary([*range(10, 0, -1), 100], "ms") == {"median": 6, "p90": 10, "unit": "ms", "runs": 11}
    assert bench.summary([4.0], "s") == {"median": 4.0, "p90": 4.0, "unit": "s", "runs": 1}


def verdicts(**medians):
    table = bench.lines({name: bench.summary([time], "ms") for name, time in medians.items()})
    return {line.split(": ")[0]: line.split(": ")[-1] for line in table if ": " in line}


@pytest.mark.parametrize(("explorer", "naive", "ratio"), [(10, 44, "NO"), (10, 45, "yes")])
def test_a_ratio_is_to_be_at_least_so_much(explorer, naive, ratio):
    said = verdicts(explorer_6x6_kernel=explorer, interact_6x6_kernel=naive)
    assert said["interact_6x6_kernel / explorer_6x6_kernel"] == ratio


@pytest.mark.parametrize(("suite", "ratio"), [(30, "yes"), (31, "NO")])
def test_the_suite_is_to_take_at_most_so_much(suite, ratio):
    assert verdicts(test_wall=suite, test_floor_wall=10)["test_wall / test_floor_wall"] == ratio


@pytest.mark.parametrize(("median", "met"), [(20, "yes"), (20.01, "NO")])
def test_a_time_is_held_against_its_target(median, met):
    [(row, said)] = verdicts(explorer_12x64_kernel=median).items()
    assert row.split()[0] == "explorer_12x64_kernel"
    assert said == met


def test_skipped_parts_are_not_imported_and_give_no_results():
    assert bench.measure(bench.PARTS, moves=1, suite_runs=1) == {}


def test_the_inner_make_does_not_get_the_outer_ones_arguments(monkeypatch):
    given = {}
    monkeypatch.setattr(subprocess, "run", lambda *_, env, **__: given.update(env) or SimpleNamespace(returncode=0))
    monkeypatch.setattr(os, "environ", {"PATH": "here", "ARGS": "--skip suite", "MAKEFLAGS": " -- ARGS=--skip\\ suite"})
    measure_suite.seconds("test")
    assert given == {"PATH": "here"}
