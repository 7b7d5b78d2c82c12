"""What `make bench` says of its times. The times themselves are no test: other work on the machine moves them."""

import os
import subprocess
import time
from types import SimpleNamespace

import pytest

from tools.bench import bench, bench_visits, measure_suite


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


@pytest.mark.parametrize(("median", "met"), [(10, "yes"), (10.01, "NO")])
def test_a_time_is_held_against_its_target(median, met):
    [(row, said)] = verdicts(explorer_12x64_kernel=median).items()
    assert row.split()[0] == "explorer_12x64_kernel"
    assert said == met


@pytest.mark.parametrize("screen", ["", "_plain_screen"])
@pytest.mark.parametrize(("painted", "met"), [(38, "yes"), (38.01, "NO")])
def test_a_picture_is_shown_soon_after_the_floor_on_the_same_screen(screen, painted, met):
    floors = {"floor_keypress_painted": 0, "floor_keypress_plain_screen_painted": 0}
    floors[f"floor_keypress{screen}_painted"] = 30
    said = verdicts(**{f"explorer_12x64_keypress{screen}_painted": painted}, **floors)
    name = f"explorer_12x64_keypress{screen}_painted - floor_keypress{screen}_painted"
    assert said[name] == met


@pytest.mark.parametrize(
    ("parts", "met"),
    [
        ({", computed": (9, 9), ", picture": (4, 4), ", together": (10, 10)}, "yes, yes"),
        ({", computed": (1, 1), ", picture": (4.01, 4), ", together": (10, 10)}, "NO, yes"),
        ({", computed": (1, 1), ", picture": (3, 3), ", together": (11, 10.01)}, "NO, NO"),
        ({" new": (60, 60)}, "yes, yes"),
        ({" new": (61, 60)}, "NO, yes"),
    ],
)
def test_first_visits_are_held_against_their_limits_by_both_clocks(parts, met):
    visits = {
        f"QKVExplorer seed{part}": bench.visit_summary([times, (99, 99), (0, 0)]) for part, times in parts.items()
    }
    [_, row] = bench.visit_lines(visits)
    assert row.startswith("QKVExplorer seed")
    assert f"{next(iter(parts.values()))[0]:6.2f}   99.00" in row  # median and worst
    assert row.rpartition(": ")[2] == met


def test_first_visits_pass_over_what_a_learners_class_refuses(monkeypatch):
    monkeypatch.setattr(bench_visits, "settings_of", lambda control: [1, 2, 3, 4])
    visits = bench_visits.first_visits("LayerExplorer", {}, "d_out")
    assert len(visits) == 1  # 4 is where it stands; 1 and 3 make no whole heads of two


def test_first_visits_cover_every_control_and_tell_parts_apart(monkeypatch):
    monkeypatch.setattr(bench_visits, "MOST", 1)
    monkeypatch.setattr(bench_visits, "RUNS", 1)
    monkeypatch.setattr(bench_visits, "STARTS", {name: ("ScoresExplorer", {}) for name in ("one", "two")})
    monkeypatch.setattr(bench_visits.explorers, "__all__", ["ScoresExplorer"])
    compute = bench_visits.explorers.ScoresExplorer.compute
    slow = lambda self, **values: [time.sleep(0.005), compute(self, **values)][1]  # noqa: E731
    monkeypatch.setattr(bench_visits.explorers.ScoresExplorer, "compute", slow)
    times = bench_visits.visit_times()
    rows = [f"{start} {control}" for start in ("one", "two") for control in ("query", "temperature")]
    parts = ("computed", "picture", "together")
    assert list(times) == ["ScoresExplorer new", *(f"{row}, {part}" for row in rows for part in parts)]
    for row in rows:
        [(computed, busy)], [(picture, _)], [(together, _)] = (times[f"{row}, {part}"] for part in parts)
        assert computed >= 5 > busy  # asleep, it keeps the clock running, but no processor
        assert 0 < computed + picture <= together


def test_skipped_parts_are_not_imported_and_give_no_results():
    assert bench.measure(bench.PARTS, moves=1, suite_runs=1) == {}


def test_the_inner_make_does_not_get_the_outer_ones_arguments(monkeypatch):
    given = {}
    monkeypatch.setattr(subprocess, "run", lambda *_, env, **__: given.update(env) or SimpleNamespace(returncode=0))
    monkeypatch.setattr(os, "environ", {"PATH": "here", "ARGS": "--skip suite", "MAKEFLAGS": " -- ARGS=--skip\\ suite"})
    measure_suite.seconds("test")
    assert given == {"PATH": "here"}
