"""What a step needs at sizes that were not compiled: bounds that hold for every program of rising lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.planning.estimate import Interval
from oomph.planning.xla.growth import XlaGrowth

LINES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=4)
SIZES = st.sets(st.integers(1, 4096), min_size=1, max_size=3)


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
