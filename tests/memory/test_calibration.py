"""What real steps correct, and what they do not."""

from __future__ import annotations

import itertools

import pytest

from oomph.memory.calibration import LOWER, SCRATCH, UPPER, Correction, Measured, correction
from oomph.memory.estimate import Interval

MIB = 1 << 20


def steps(batch: int, peak: int, predicted: int) -> Measured:
    return Measured(batch, [peak * MIB] * 3, predicted * MIB)


def corrected(measured: list[Measured], batch: int, predicted: int, held: int = 0) -> Interval:
    found = correction(measured)
    assert found is not None
    return found.of(Interval(predicted, predicted, predicted), batch, held)


def test_without_real_steps_nothing_is_corrected() -> None:
    assert correction([]) is None


def test_a_factor_that_all_sizes_show_corrects_every_batch() -> None:
    measured = [steps(2, 110, 100), steps(8, 220, 200)]
    for batch in (1, 2, 5, 8, 64):
        assert corrected(measured, batch, 1000).expected == pytest.approx(1100, abs=1)


def test_near_sizes_count_more_than_far_ones() -> None:
    found = Correction([steps(2, 80, 100), steps(8, 200, 200), steps(32, 600, 500)])
    factors = [found.factor(batch) for batch in (1, 2, 8, 32, 256)]
    assert all(0.8 < factor < 1.2 for factor in factors)
    assert factors == sorted(factors)
    assert found.factor(8) == pytest.approx(1.0, abs=0.02)


def test_one_size_off_by_chance_is_smoothed() -> None:
    calm = Correction([steps(2, 100, 100), steps(8, 200, 200), steps(32, 500, 500)])
    wild = Correction([steps(2, 100, 100), steps(8, 240, 200), steps(32, 500, 500)])
    assert calm.factor(8) == 1.0
    assert 1.1 < wild.factor(8) < 1.2
    assert 1.0 < wild.factor(32) < 1.05


def test_the_steps_of_one_size_count_on_average() -> None:
    found = Correction([Measured(8, [90 * MIB, 100 * MIB, 110 * MIB], 100 * MIB)])
    assert found.factor(8) == pytest.approx(1.0)


def test_the_interval_is_that_of_chance_and_widens_beyond_what_ran() -> None:
    measured = [steps(2, 100, 100), steps(8, 200, 200)]
    peak = corrected(measured, 8, 1000)
    assert (peak.low, peak.high) == (round(LOWER * 1000), round(UPPER * 1000))
    widths = [peak.high / peak.low for peak in (corrected(measured, batch, 10**6) for batch in (8, 16, 64, 128))]
    assert all(one < other for one, other in itertools.pairwise(widths))
    assert corrected(measured, 1 << 20, 10**6) == corrected(measured, 128, 10**6)


def test_what_is_held_is_in_use_in_any_case() -> None:
    peak = corrected([steps(2, 10, 100)], 2, 100 * MIB, held=50 * MIB)
    assert peak.low == peak.expected == 50 * MIB


def test_convolutions_may_take_scratch_memory_side_by_side() -> None:
    without, found = correction([steps(2, 100, 100)]), correction([steps(2, 100, 100)], convolves=True)
    assert without is not None
    assert found is not None
    peak = Interval(MIB, MIB, MIB)
    assert found.of(peak, 2, 0).high == without.of(peak, 2, 0).high + SCRATCH
