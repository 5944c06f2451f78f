"""Even rises: a few that add the same tell more than a trend."""

from __future__ import annotations

import pytest

from oomph.monitor.growth import Point, even_rises


def series(*values: float) -> list[Point]:
    return [(float(number), value) for number, value in enumerate(values)]


def test_even_rises_are_recognised_as_growth_with_a_rate():
    found = even_rises(series(5, 50, 60, 70.5, 80), 3, 1)
    assert found is not None
    assert (found.rate, found.grown, found.begin, found.end, found.readings) == (10, 30, 1, 4, 4)


@pytest.mark.parametrize(
    "values",
    [(10, 20, 30), (10, 20, 30, 60), (10, 20, 30, 30), (40, 30, 20, 10), (10, 10, 10, 10), (90, 10, 20, 30, 40)],
    ids=["too few", "one is larger", "the last is none", "falls", "stays", "was there before"],
)
def test_irregular_values_are_not_even_rises(values):
    assert even_rises(series(*values), 3, 1) is None


def test_rises_below_the_minimum_size_are_ignored():
    assert even_rises(series(1, 2, 3, 4), 3, 5) is None
