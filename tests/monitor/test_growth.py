"""Steady growth and the purpose of each gate: without it, these healthy series are mistaken for leaks."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest

from oomph.monitor import growth
from oomph.monitor.growth import Gates, Point, even_rises, steady_growth

MIB = 1 << 20
GATES = Gates(readings=10, least_bytes=MIB)


def series(values: list[float]) -> list[Point]:
    return [(number, 100 * MIB + value * MIB) for number, value in enumerate(values)]


LINE = series([3.0 * number for number in range(40)])


def test_straight_line_is_recognised_as_growth_at_its_rate():
    found = steady_growth(LINE, GATES)
    assert found is not None
    assert found.rate == 3 * MIB
    assert (found.begin, found.end) == (0, 39)


def test_noise_in_either_direction_does_not_hide_growth():
    rng = Random(1)
    noisy = [(place, value + rng.gauss(0, 2 * MIB)) for place, value in LINE]
    found = steady_growth(noisy, GATES)
    assert found is not None
    assert found.rate == pytest.approx(3 * MIB, rel=0.1)


def test_growth_that_starts_late_is_measured_from_its_start():
    found = steady_growth(series([0.0] * 40 + [3.0 * number for number in range(40)]), GATES)
    assert found is not None
    assert found.begin >= 40
    assert found.rate == pytest.approx(3 * MIB, rel=0.05)


def test_single_low_reading_does_not_hide_growth():
    points = series([3.0 * number for number in range(80)])
    points[40] = (40, 50 * MIB)
    assert steady_growth(points, GATES) is not None


@pytest.mark.parametrize(
    ("healthy", "without"),
    [
        (series([3.0 * n for n in range(10)]), {"readings": 8}),
        (series([0.02 * n for n in range(40)]), {"least_bytes": 0}),
        (series([10 * n**0.6 for n in range(40)]), {"still": 0.0}),
        (series(list(accumulate(rng.gauss(0, 3) for rng in [Random(20)] for _ in range(60)))), {"straight": 4.0}),
    ],
    ids=["too few readings", "too little", "levels off", "a random walk"],
)
def test_each_gate_value_is_needed_to_reject_a_healthy_series(healthy, without):
    assert steady_growth(healthy, GATES) is None
    assert steady_growth(healthy, replace(GATES, **without)) is not None


def test_growth_that_has_just_reached_its_plateau_is_not_reported(monkeypatch):
    full = series([3.0 * min(n, 32) + n % 2 for n in range(42)])
    assert steady_growth(full[:32], GATES) is not None
    assert steady_growth(full, replace(GATES, straight=8.0)) is None
    monkeypatch.setattr(growth, "_grows_now", lambda *_: True)
    assert steady_growth(full, replace(GATES, straight=8.0)) is not None


def test_growth_that_stopped_a_few_readings_ago_is_not_reported(monkeypatch):
    full = series([3.0 * min(n, 75) for n in range(84)])
    assert steady_growth(full[:76], GATES) is not None
    assert steady_growth(full, GATES) is None
    monkeypatch.setattr(growth, "_has_just_stopped", lambda *_: False)
    assert steady_growth(full, GATES) is not None


def test_noisy_growth_is_not_mistaken_for_stopped_growth():
    rng = Random(2)
    noisy = [(place, value + rng.gauss(0, 4 * MIB)) for place, value in series([2.0 * n for n in range(80)])]
    found = steady_growth(noisy[:75], GATES)
    assert found is not None
    flat = [*noisy[:75], *((place, noisy[70][1] + rng.gauss(0, 4 * MIB)) for place in range(75, 80))]
    assert not growth._has_just_stopped(flat, found)


def test_floor_of_a_noisy_part_lies_at_its_first_quarter():
    rng = Random(3)
    part = [(float(place), rng.gauss(0, MIB)) for place in range(100)]
    assert growth._floor(part)[0] == 25.0


def test_series_that_levels_off_is_not_judged_by_its_second_half_alone():
    healthy = series([30 * math.log1p(n) for n in range(80)])
    assert steady_growth(healthy, GATES) is None
    assert growth._over_all(healthy[-20:], GATES).goes_on  # would pass on its own


def test_renewed_sawtooth_rise_is_not_growth(monkeypatch):
    healthy = series([3.0 * (n % 40) for n in range(118)])
    assert steady_growth(healthy, GATES) is None
    monkeypatch.setattr(growth, "reaches_new_heights", lambda *_: True)
    assert steady_growth(healthy, GATES) is not None


def test_garbage_collection_unaligned_with_epochs_is_not_growth(monkeypatch):
    healthy = series([20 * (n / 2.96 % 1) for n in range(61)])
    assert steady_growth(healthy, GATES) is None
    monkeypatch.setattr(growth, "_has_just_stopped", lambda *_: False)
    monkeypatch.setattr(growth, "_spread", lambda *_: 0)
    assert steady_growth(healthy, GATES) is not None


def test_handful_of_rises_is_not_growth(monkeypatch):
    healthy = series([6.0 * min(n // 2, 6) for n in range(14)])
    assert steady_growth(healthy, GATES) is None
    monkeypatch.setattr(growth, "rises_for_good", lambda *_: 99)
    assert steady_growth(healthy, GATES) is not None


def test_spikes_do_not_hide_rising_memory():
    points = series([3.0 * n + 90 * (n % 7 == 3) for n in range(80)])
    assert steady_growth(points, GATES) is not None


def test_growth_in_only_one_part_of_a_series_is_not_reported():
    healthy = series([0.0] * 30 + [3.0 * number for number in range(1, 9)])
    assert growth._over_some(healthy, GATES) is not None
    assert steady_growth(healthy, GATES) is None


@pytest.mark.parametrize("points", [[], [(0.0, 1.0)], [(1.0, 5.0 * MIB)] * 30], ids=["none", "one", "one place"])
def test_too_few_readings_show_no_growth(points):
    assert steady_growth(points, GATES) is None


@pytest.mark.alone
def test_evaluating_an_hour_of_readings_takes_under_100_ms():
    rng = Random(2)
    hour = [(float(second), 8e9 + rng.gauss(0, 1e7)) for second in range(3600)]
    begin = time.process_time()
    for _ in range(10):
        steady_growth(hour, Gates(readings=64, least_bytes=96 * MIB))
    assert (time.process_time() - begin) / 10 < 0.1


def steps(*values: float) -> list[Point]:
    return [(float(number), value) for number, value in enumerate(values)]


def test_steady_steps_are_recognised_as_growth_with_a_rate():
    found = even_rises(steps(5, 50, 60, 70.5, 80), 3, 1)
    assert found is not None
    assert (found.rate, found.grown, found.begin, found.end, found.readings) == (10, 30, 1, 4, 4)


@pytest.mark.parametrize(
    "values",
    [(10, 20, 30), (10, 20, 30, 60), (10, 20, 30, 30), (40, 30, 20, 10), (10, 10, 10, 10), (90, 10, 20, 30, 40)],
    ids=["too few", "one is larger", "the last is none", "falls", "stays", "was there before"],
)
def test_irregular_values_are_not_recognised_as_steady_steps(values):
    assert even_rises(steps(*values), 3, 1) is None


def test_rises_below_the_minimum_size_are_ignored():
    assert even_rises(steps(1, 2, 3, 4), 3, 5) is None
