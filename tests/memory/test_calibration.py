"""What real steps correct, and what they do not."""

from __future__ import annotations

from oomph.memory.calibration import LOWER, UPPER, Measured, correction
from oomph.memory.estimate import Interval

MIB = 1 << 20


def corrected(measured: list[Measured], batch: int, predicted: int, held: int = 0) -> Interval:
    found = correction(measured)
    assert found is not None
    return found.of(Interval(predicted, predicted, predicted), batch, held)


def steps(batch: int, peak: int, predicted: int) -> Measured:
    return Measured(batch, [peak * MIB] * 3, predicted * MIB)


def test_without_real_steps_nothing_is_corrected() -> None:
    assert correction([]) is None


def test_a_fixed_surplus_stays_fixed() -> None:
    assert corrected([steps(2, 150, 100), steps(8, 250, 200)], 64, 1000 * MIB).expected == 1050 * MIB


def test_a_surplus_that_grows_goes_on_growing_by_half_in_what_is_expected_and_as_a_whole_in_the_high_end() -> None:
    peak = corrected([steps(2, 102, 100), steps(8, 208, 200)], 64, 1000 * MIB)
    assert peak.expected == (1000 + 8 + 24) * MIB
    assert peak.high == round(UPPER * (1000 + 8 + 48) * MIB)
    assert peak.low == round(LOWER * 1008 * MIB)


def test_noise_at_two_small_batches_is_not_blown_up() -> None:
    peak = corrected([steps(2, 60, 100), steps(8, 200, 110)], 64, 1000 * MIB)
    assert peak.expected < 1130 * MIB


def test_chance_in_predictions_that_do_not_grow_says_nothing_of_a_batch_that_is_much_larger() -> None:
    peak = corrected([steps(2, 498, 544), steps(8, 498, 574)], 16_384, 572 * MIB)
    assert peak.expected == 496 * MIB


def test_the_largest_of_the_steps_counts_in_the_high_end() -> None:
    calm, wild = (correction([Measured(8, [100, 100, last], 100)]) for last in (100, 200))
    assert calm is not None
    assert wild is not None
    peak = Interval(100, 100, 100)
    assert wild.of(peak, 8, 0).expected == calm.of(peak, 8, 0).expected
    assert wild.of(peak, 8, 0).high > calm.of(peak, 8, 0).high


def test_what_is_held_is_in_use_in_any_case() -> None:
    assert corrected([steps(2, 10, 100)], 2, 100 * MIB, held=50 * MIB).low == 50 * MIB


def test_between_the_two_batches_the_surplus_is_between_theirs() -> None:
    measured = [steps(2, 100, 100), steps(8, 230, 200)]
    assert corrected(measured, 2, 100 * MIB).expected == 100 * MIB
    assert corrected(measured, 5, 150 * MIB).expected == 165 * MIB
    assert corrected(measured, 8, 200 * MIB).expected == 230 * MIB
    assert corrected(measured, 1, 90 * MIB).expected == 90 * MIB
