"""Which batch sizes are compiled."""

from __future__ import annotations

from oomph.planning.xla.sizes_to_compile import ENOUGH_SECONDS, is_time_left, next_size


def each_ten(batch: int) -> int:
    return 10 * batch


def test_requested_sizes_are_compiled_before_the_largest_that_should_fit() -> None:
    assert next_size([], [8, 32], each_ten, 1000) == 32
    assert next_size([32], [8, 32], each_ten, 1000) == 8
    guess = next_size([32, 8], [8, 32], each_ten, 1000)
    assert guess is not None
    assert 90 <= guess <= 100


def test_size_near_a_known_one_is_not_compiled() -> None:
    assert next_size([96], [96], each_ten, 1000) is None
    assert next_size([64], [64], each_ten, 1000) is not None


def test_no_size_is_compiled_after_three_or_without_a_usable_limit() -> None:
    assert next_size([8, 32, 64], [8, 32], each_ten, 1000) is None
    assert next_size([32], [32], each_ten, None) is None
    assert next_size([32], [32], each_ten, 5) is None


def test_further_size_is_compiled_only_if_it_can_end_in_time() -> None:
    assert is_time_left(ENOUGH_SECONDS / 2, ENOUGH_SECONDS / 2)
    assert not is_time_left(ENOUGH_SECONDS / 2, ENOUGH_SECONDS / 2 + 1)
