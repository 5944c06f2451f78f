"""The peak at sizes that were neither run nor compiled."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.planning.peaks import (
    LOWER,
    LOWER_XLA,
    UPPER,
    UPPER_XLA,
    Peaks,
    XlaGrowth,
    grown_course,
    rising,
    simulated_course,
)
from oomph.planning.plan import Interval

LINES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=4)
SIZES = st.sets(st.integers(1, 4096), min_size=1, max_size=3)
MIB = 1 << 20


@given(LINES, SIZES, st.integers(1, 20_000))
def test_upper_bound_always_holds_and_lower_bound_outside_compiled_sizes(lines, sizes, batch) -> None:
    def truth(size: int) -> int:
        return max(start + each * size for start, each in lines)

    found = XlaGrowth({size: truth(size) for size in sizes}).at(batch)
    rounding = 1
    if not min(sizes) < batch < max(sizes):
        assert found.low - rounding <= truth(batch)
    assert truth(batch) <= found.high + rounding


@given(LINES, SIZES)
def test_predicted_size_never_falls_as_the_batch_grows(lines, sizes) -> None:
    growth = XlaGrowth({size: max(start + each * size for start, each in lines) for size in sizes})
    around = sorted({near for size in sizes for near in (size - 1, size, size + 1) if near >= 1} | {1, 9000})
    peaks = [growth.at(batch) for batch in around]
    for one, other in itertools.pairwise(peaks):
        assert one.high <= other.high + 1
        assert one.expected <= other.expected + 1


def test_prediction_for_a_compiled_size_is_exact() -> None:
    assert XlaGrowth({8: 100, 32: 300}).at(32) == Interval(300, 300, 300)


def test_quadratic_growth_is_bounded_by_a_square() -> None:
    growth = XlaGrowth({8: 64, 32: 1024})
    assert not growth.is_proportional
    assert growth.at(64).high == 4096


@pytest.mark.parametrize(("batch", "expected"), [(4, 60), (16, 160), (64, 560)])
def test_expected_size_lies_on_the_line_through_two_compiled_sizes(batch: int, expected: int) -> None:
    found = XlaGrowth({8: 100, 32: 300}).at(batch)
    assert found.low <= found.expected <= found.high
    assert abs(found.expected - expected) <= 8


def line(batch: int) -> int:
    """Return what a simulation predicts: a plateau, then one MiB per sample."""
    return max(40, 10 + batch) * MIB


def simulated(measured: dict[int, int], now: int = 0, held: int = 0) -> Peaks:
    return Peaks(measured, simulated_course(measured, line, held), fits_below=now)


def compiled(measured: dict[int, int], now: int = 0) -> Peaks:
    return Peaks(measured, grown_course(measured, lambda batch: 20 * MIB + batch * (MIB // 4), line), fits_below=now)


RAN = {2: 44 * MIB, 8: 43 * MIB, 64: 90 * MIB, 256: 250 * MIB}


@pytest.mark.parametrize("make", [simulated, compiled])
def test_expected_peak_of_a_measured_size_is_its_measured_peak(make) -> None:
    peaks = make(RAN)
    assert {size: peaks.at(size).expected for size in RAN} == rising(RAN)


def test_larger_size_has_at_least_the_peak_of_a_smaller_one() -> None:
    assert rising({8: 5, 2: 7, 4: 6, 16: 9}) == {2: 7, 4: 7, 8: 7, 16: 9}


@pytest.mark.parametrize("make", [simulated, compiled])
@pytest.mark.parametrize("now", [0, 256 * MIB])
def test_predicted_peaks_never_fall_as_the_batch_grows(make, now) -> None:
    found = [make(RAN, now).at(batch) for batch in range(1, 600)]
    for one, other in itertools.pairwise(found):
        assert one.low <= other.low
        assert one.expected <= other.expected
        assert one.high <= other.high


def test_simulation_scaled_by_measurements_extends_beyond_them() -> None:
    measured = {8: 40 * MIB, 64: 148 * MIB}  # twice the 74 MiB that were simulated
    peak = simulated(measured).at(128)
    assert peak.expected == 2 * line(128)
    assert peak.low < LOWER * peak.expected
    assert peak.high > UPPER * peak.expected
    assert simulated(measured, held=90 * MIB).at(1).low == 90 * MIB


def test_upper_bound_without_a_simulation_is_proportional_to_the_batch() -> None:
    peak = compiled({8: 60 * MIB, 64: 160 * MIB}).at(128)
    counted, line_to = 20 + 32, 124 + (124 - 38) * 64 / 56  # 38 and 124 MiB are not counted
    assert peak.high == pytest.approx(UPPER_XLA * (counted + 2 * 124) * MIB, abs=2)
    assert peak.expected == pytest.approx((counted + line_to) * MIB, abs=2)
    assert peak.low == pytest.approx(LOWER_XLA * (counted + line_to) * MIB, abs=2)


def test_expected_peak_from_one_size_follows_the_bounded_simulation() -> None:
    peaks = compiled({32: 84 * MIB})  # twice the 42 MiB that were simulated
    assert [peaks.at(batch).expected for batch in (32, 64, 128)] == [84 * MIB, 2 * line(64), 2 * line(128)]
    assert peaks.at(64).high == pytest.approx(UPPER_XLA * (36 + 2 * 56) * MIB, abs=2)
    assert peaks.at(4096).expected <= peaks.at(4096).high


def test_fresh_measurement_fits_but_older_ones_are_judged_by_bounds() -> None:
    limit = 255 * MIB
    assert simulated(RAN, limit).at(256).high == limit
    assert simulated(RAN, limit).at(100).high <= limit
    assert simulated(RAN, limit).at(257).high > limit
    assert simulated(RAN).at(256).high == round(UPPER * 250 * MIB)
    assert simulated(RAN, 240 * MIB).at(256).high == 250 * MIB, "never below what it took"
