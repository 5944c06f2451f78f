"""Corrections from real steps, and their limits."""

from __future__ import annotations

import itertools

import pytest

from oomph.planning.plan import Interval
from oomph.planning.prediction import LOWER, SCRATCH, UPPER, Correction, MeasuredSteps, correction

MIB = 1 << 20


def steps(batch: int, peak: int, predicted: int) -> MeasuredSteps:
    return MeasuredSteps(batch, [[peak * MIB] * 3], predicted * MIB)


def corrected(measured: list[MeasuredSteps], batch: int, predicted: int, held: int = 0) -> Interval:
    found = correction(measured)
    assert found is not None
    return found.of(Interval(predicted, predicted, predicted), batch, held)


def test_nothing_is_corrected_without_real_steps() -> None:
    assert correction([]) is None


def test_factor_common_to_all_sizes_corrects_every_batch() -> None:
    measured = [steps(2, 110, 100), steps(8, 220, 200)]
    for batch in (1, 2, 5, 8, 64):
        assert corrected(measured, batch, 1000).expected == pytest.approx(1100, abs=1)


def test_measured_size_has_its_own_factor_and_nearby_sizes_weigh_more() -> None:
    found = Correction([steps(2, 80, 100), steps(8, 200, 200), steps(32, 600, 500)])
    factors = [found.factor(batch) for batch in (2, 4, 8, 16, 32)]
    assert factors == sorted(factors)
    assert [found.factor(batch) for batch in (2, 8, 32)] == [0.8, 1.0, 1.2]
    assert 0.8 < found.factor(1) < found.factor(4) < 1.0 < found.factor(16) < found.factor(256) < 1.2


def test_factor_next_to_an_outlier_is_smoothed() -> None:
    wild = Correction([steps(2, 100, 100), steps(8, 240, 200), steps(32, 500, 500)])
    assert wild.factor(5) < 1.13
    assert 1.0 < wild.factor(33) < 1.05


def test_factor_averages_the_maximum_from_each_order() -> None:
    found = Correction([MeasuredSteps(8, [[90 * MIB, 100 * MIB], [100 * MIB, 120 * MIB, 80 * MIB]], 100 * MIB)])
    assert found.factor(8) == pytest.approx(1.1)


def test_differing_orders_widen_the_interval_of_each_size() -> None:
    orders = [[80 * MIB], [100 * MIB], [125 * MIB]]
    found = Correction([MeasuredSteps(8, orders, 100 * MIB), MeasuredSteps(32, [[300 * MIB]], 300 * MIB)])
    peak = Interval(MIB, MIB, MIB)
    beyond = (125 / 80) ** 0.5
    assert found.of(peak, 8, 0).low == pytest.approx(0.8 * MIB / beyond, abs=1)
    assert found.of(peak, 8, 0).high == pytest.approx(1.25 * MIB * beyond, abs=1)
    assert found.of(peak, 32, 0).high == pytest.approx(MIB * beyond, abs=1)


def test_upper_bound_between_two_sizes_covers_both_measured_ratios() -> None:
    found = Correction([steps(8, 90, 100), steps(32, 600, 400)])
    assert found.of(Interval(MIB, MIB, MIB), 16, 0).high >= 1.5 * MIB


def test_interval_allows_for_chance_and_widens_beyond_measured_sizes() -> None:
    measured = [steps(2, 100, 100), steps(8, 200, 200)]
    peak = corrected(measured, 8, 1000)
    assert (peak.low, peak.high) == (round(LOWER * 1000), round(UPPER * 1000))
    widths = [peak.high / peak.low for peak in (corrected(measured, batch, 10**6) for batch in (8, 16, 64, 128))]
    assert all(one < other for one, other in itertools.pairwise(widths))
    assert corrected(measured, 1 << 20, 10**6) == corrected(measured, 128, 10**6)


def test_held_memory_is_a_lower_bound_on_the_peak() -> None:
    peak = corrected([steps(2, 10, 100)], 2, 100 * MIB, held=50 * MIB)
    assert peak.low == peak.expected == 50 * MIB


def test_convolutions_widen_the_upper_bound_by_scratch_memory() -> None:
    without, found = correction([steps(2, 100, 100)]), correction([steps(2, 100, 100)], convolves=True)
    assert without is not None
    assert found is not None
    peak = Interval(MIB, MIB, MIB)
    assert found.of(peak, 2, 0).high == without.of(peak, 2, 0).high + SCRATCH
