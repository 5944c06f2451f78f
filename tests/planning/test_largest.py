"""The search for the largest batch."""

from __future__ import annotations

import pytest

from oomph.planning.largest import MOST, largest_batch


@pytest.mark.parametrize("most", [1, 2, 3, 7, 31, 32, 33, 100, 1000, 54_321])
@pytest.mark.parametrize("start", [1, 16, 4096])
def test_largest_batch_is_found_within_a_sixteenth_and_never_exceeded(most: int, start: int) -> None:
    asked = []

    def high(batch: int) -> int:
        asked.append(batch)
        return batch

    found = largest_batch(high, most, start)
    assert most * 15 / 16 - 1 <= found <= most
    assert len(asked) < 32


def test_largest_batch_is_zero_if_nothing_fits() -> None:
    assert largest_batch(lambda batch: 10 + batch, 10) == 0


def test_search_for_the_largest_batch_ends_if_memory_never_grows() -> None:
    assert largest_batch(lambda batch: 1, 10) >= 1 << 19


def test_no_batch_beyond_the_maximum_is_tried() -> None:
    asked = []

    def high(batch: int) -> int:
        asked.append(batch)
        return batch

    assert largest_batch(high, 1 << 40, start=50) == MOST
    assert max(asked) == MOST
