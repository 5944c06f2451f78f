"""The search for the largest batch, and the choice of sizes to run and to compile."""

from __future__ import annotations

import pytest

from oomph.planning.batch_sizes import (
    ENOUGH_SECONDS,
    MOST,
    MOST_RUN,
    can_compile_more,
    can_run_more,
    largest_batch,
    next_size,
    next_to_run,
    sizes_wanted,
)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 31, 32, 33, 100, 1000, 54_321])
@pytest.mark.parametrize("start", [1, 16, 4096])
def test_largest_batch_is_found_to_within_a_sixteenth_and_never_exceeded(most: int, start: int) -> None:
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


def test_batches_beyond_the_maximum_are_not_tried() -> None:
    asked = []

    def high(batch: int) -> int:
        asked.append(batch)
        return batch

    assert largest_batch(high, 1 << 40, start=50) == MOST
    assert max(asked) == MOST


def order(wanted: tuple[int, ...], fits: int, known_to: float, limit: int = 1000) -> tuple[list[int], int | None]:
    """Return the sizes that run on a GPU with room for `fits` samples, if the bound is `known_to` times too high."""
    ran: list[int] = []
    ran_out: int | None = None

    def high(batch: int) -> int:
        return round(limit * batch / fits * (known_to if batch > max(ran) else 1))

    while (size := next_to_run(ran, ran_out, wanted, high, limit)) is not None:
        assert size not in ran
        assert ran_out is None or size < ran_out
        if size > fits:
            ran_out = size
        else:
            ran.append(size)
    return ran, ran_out


def test_step_without_xla_runs_small_sizes_first() -> None:
    assert sizes_wanted(False, [32, 256], True) == (2, 8, 32, 256)
    assert sizes_wanted(False, [16], False) == (2, 8, 16)
    assert sizes_wanted(False, [3], True) == (3,)
    assert sizes_wanted(False, [64, 100, 256], True) == (2, 8, 32, 256, 64, 100)


def test_compiled_step_runs_the_largest_requested_size_first_if_it_should_fit() -> None:
    assert sizes_wanted(True, [32, 256], True) == (256, 64, 32)
    assert sizes_wanted(True, [32, 256], False) == (64, 256, 32)
    assert sizes_wanted(True, [1], True) == (1,)


def test_sizes_are_not_tried_without_enough_time_left() -> None:
    assert can_run_more(60, 60)
    assert not can_run_more(100, 90)


def test_sizes_that_should_fit_run_in_order() -> None:
    assert order((2, 8, 32, 256, 64), fits=1000, known_to=1.0) == ([2, 8, 32, 256, 64], None)


def test_intermediate_size_runs_first_when_the_bound_is_too_high() -> None:
    ran: list[int] = []

    def needs(batch: int) -> int:
        return 100 + 3 * batch

    def high(batch: int) -> int:  # in proportion to the batch, beyond what ran
        return needs(batch) if batch <= max(ran) else needs(max(ran)) * batch // max(ran)

    while (size := next_to_run(ran, None, (8, 256), high, 1000)) is not None:
        ran.append(size)
    assert ran[0] == 8
    assert 16 <= ran[1] < 256, "all that is sure to fit"
    assert ran[-1] == 256


def test_size_that_cannot_fit_is_not_run() -> None:
    ran, ran_out = order((2, 8, 32, 256), fits=100, known_to=1.0)
    assert 256 not in ran
    assert max(ran) <= 100
    assert ran_out is None


def test_much_smaller_size_runs_after_the_first_runs_out_of_memory() -> None:
    assert order((64, 16), fits=10, known_to=1.0) == ([8], 64)
    assert order((64, 16), fits=0, known_to=1.0) == ([], 1)
    assert order((64,), fits=1, known_to=1.0) == ([], 64), "a model that takes no other size"


def test_number_of_probed_sizes_is_limited() -> None:
    ran, _ = order(tuple(range(1, 100)), fits=1000, known_to=1.0)
    assert len(ran) == MOST_RUN


def each_ten(batch: int) -> int:
    return 10 * batch


def test_requested_sizes_are_compiled_before_the_largest_that_should_fit() -> None:
    assert next_size([], [8, 32], each_ten, 1000) == 32
    assert next_size([32], [8, 32], each_ten, 1000) == 8
    guess = next_size([32, 8], [8, 32], each_ten, 1000)
    assert guess is not None
    assert 90 <= guess <= 100


def test_size_close_to_a_compiled_one_is_skipped() -> None:
    assert next_size([96], [96], each_ten, 1000) is None
    assert next_size([64], [64], each_ten, 1000) is not None


def test_compilation_stops_after_three_sizes_or_without_a_limit() -> None:
    assert next_size([8, 32, 64], [8, 32], each_ten, 1000) is None
    assert next_size([32], [32], each_ten, None) is None
    assert next_size([32], [32], each_ten, 5) is None


def test_another_size_is_compiled_only_if_time_allows() -> None:
    assert can_compile_more(ENOUGH_SECONDS / 2, ENOUGH_SECONDS / 2)
    assert not can_compile_more(ENOUGH_SECONDS / 2, ENOUGH_SECONDS / 2 + 1)
