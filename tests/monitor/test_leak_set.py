"""The leak detectors on part of benchmarks/leak_set: recorded runs, and one series from each generated family.

`python benchmarks/leaks.py` measures the whole set; docs/measurements.md has the results.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import leaks
from leak_set.series import Point, Series, read, write

RECORDED = list(read(Path(__file__).parent / "recorded"))
LARGEST_RECORDING = 8 << 10


@pytest.mark.parametrize("series", RECORDED, ids=lambda series: series.name)
def test_recorded_training_run_is_judged_as_labelled(series):
    verdict = leaks.judge(series)
    assert (verdict.alarm is not None) is series.leak


def test_recordings_cover_both_leaks_and_healthy_training_runs():
    kinds = [series.leak for series in RECORDED]
    assert min(kinds.count(True), kinds.count(False)) >= 10
    sizes = [path.stat().st_size for path in (Path(__file__).parent / "recorded").iterdir()]
    assert max(sizes) <= LARGEST_RECORDING


def shares(name: str, each: int) -> tuple[float, float]:
    """Return the shares of false alarms and of detected leaks."""
    verdicts = [leaks.judge(series) for series in leaks.generated(leaks.SETS[name], each, seed=1)]
    found, healthy = ([v.alarm is not None for v in verdicts if v.leak is kind] for kind in (True, False))
    return sum(healthy) / len(healthy), sum(found) / len(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "each", "most_false_alarms"),
    [("inside, development", 3, 0.01), ("inside, held out", 3, 0.01), ("outside, development", 5, 0.005)],
)
def test_leak_detectors_keep_false_alarms_rare_and_recall_high(name, each, most_false_alarms):
    false_alarms, recall = shares(name, each)
    assert false_alarms <= most_false_alarms
    assert recall >= 0.9


def test_recorded_set_has_more_than_500_labelled_series():
    families = [family for module in leaks.SETS.values() for family in module.HEALTHY + module.LEAKS]
    assert len(families) * 20 >= 500
    assert len({(family.__module__, family.__name__) for family in families}) == len(families)
    for module in leaks.SETS.values():
        assert all(family(Random(1)).leak is (family in module.LEAKS) for family in module.HEALTHY + module.LEAKS)


def test_leak_series_can_be_written_and_read(tmp_path):
    points = (Point(1.5, 100.0, 200, 0), Point(2.0, 120.0, 300, 1))
    inside = Series("a", "b", "inside", True, 1000.0, points, since=1.0, epochs=3)
    outside = replace(inside, place="outside", points=(Point(1.0, 100.0), Point(2.0, 90.0)))
    write(tmp_path / "some.jsonl", [inside, outside])
    assert list(read(tmp_path)) == [inside, outside]
