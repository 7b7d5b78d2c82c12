"""`make bench` on small sizes. The times themselves aren't tested: other work on the machine moves them."""

import json
import sys
import time

import pytest
from checkouts import ROOT

from tools.bench import explorers, layers


def test_every_layer_gets_its_times():
    times = layers.milliseconds(layers.SIZES["toy"], runs=1)
    assert {name: len(both) for name, both in times.items()} == dict.fromkeys(times, 2) | {"floor": 1}
    assert {"split", "fused", "nn.MHA", "floor"} <= times.keys()
    assert min(min(both) for both in times.values()) > 0


@pytest.mark.slow  # torch's profiler starts
def test_a_layer_that_keeps_the_score_matrix_needs_more_memory_the_longer_the_text():
    held = layers.peaks((64, 128), width=16, num_heads=2)
    assert held["split"][1] / held["split"][0] > 3 > held["fused"][1] / held["fused"][0]


def test_a_layer_that_computes_something_else_is_not_timed(monkeypatch):
    right = layers.TorchAttention.forward
    monkeypatch.setattr(layers.TorchAttention, "forward", lambda self, x: right(self, x) + 1e-3)
    with pytest.raises(SystemExit, match=r"output of nn\.MHA differs"):
        layers.milliseconds(layers.SIZES["toy"], runs=1)


def test_a_visit_is_told_apart_by_its_parts_and_by_who_worked(monkeypatch):
    kind = explorers.explorers.ScoresExplorer
    compute = kind.compute
    monkeypatch.setattr(kind, "compute", lambda self, **values: [time.sleep(0.005), compute(self, **values)][1])
    rows = explorers.measured(["ScoresExplorer"], most=2, runs=1)
    assert list(rows) == ["ScoresExplorer new", "ScoresExplorer query", "ScoresExplorer temperature"]
    for row in list(rows.values())[1:]:
        assert row["moves"] == 2
        assert row["computed"] >= 5  # asleep, it keeps the clock running but no processor
        assert row["together"] - row["processor"] > 4
        assert row["computed"] + row["picture"] <= row["together"] + 0.02  # rounded


@pytest.mark.slow  # starts a kernel
def test_the_kernel_measures_explorers_and_writes_a_file(tmp_path, monkeypatch):
    command = ["explorers", "QKVExplorer", "--most", "1", "--runs", "1", "--package", str(ROOT)]
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(tmp_path / "rows.json")])
    explorers.main()
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert rows["QKVExplorer seed"]["together"] > 0
