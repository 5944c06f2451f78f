"""The straggler among workers is named if the data proves it; a healthy run has none. And clocks that differ."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from recorded_workers import BEGIN, readings

from oomph.monitor.one_clock import on_one_clock
from oomph.monitor.pace import Pace, PaceReading
from oomph.monitor.straggler import find_straggler
from oomph.process.process_identity import ProcessIdentity


def _noisy(seconds: int, seed: int, own: float, noise: float, step: float = 0.3) -> Iterator[PaceReading]:
    drawn, waited = random.Random(seed), 0.0
    for each in readings(seconds, own, step):
        waited = max(each.all_reduce_seconds + drawn.gauss(0, noise) * step, waited)
        yield each._replace(all_reduce_seconds=waited)


@pytest.mark.parametrize("count", [2, 3, 8, 64])
def test_slow_worker_is_named_with_how_long_the_others_wait(count):
    found = find_straggler({rank: list(readings(120, 0.29 if rank == 1 else 0.2)) for rank in range(count)})
    assert found is not None
    assert (found.rank, found.also) == (1, ())
    assert found.wait_seconds == pytest.approx(0.09)
    assert found.step_seconds == pytest.approx(0.3)
    assert not found.is_waiting_for_data


@pytest.mark.parametrize("count", [2, 8, 64])
@pytest.mark.parametrize("seed", range(10))
def test_healthy_workers_have_no_straggler_however_their_times_vary(count, seed):
    found = {rank: list(_noisy(300, 100 * seed + rank, 0.2, 0.5)) for rank in range(count)}
    assert find_straggler(found) is None


def test_slower_by_less_than_a_tenth_of_the_step_is_no_straggler():
    assert find_straggler({0: list(readings(120, 0.2)), 1: list(readings(120, 0.225))}) is None


def test_late_data_is_named_as_the_cause():
    found = find_straggler({0: list(readings(120, 0.2)), 1: list(readings(120, 0.29, wait=0.1))})
    assert found is not None
    assert found.is_waiting_for_data


def test_two_late_workers_are_both_named_the_worst_first():
    own = {0: 0.2, 1: 0.26, 2: 0.2, 3: 0.29, 4: 0.2}
    found = find_straggler({rank: list(readings(120, each)) for rank, each in own.items()})
    assert found is not None
    assert (found.rank, found.also) == (3, (1,))


def test_without_the_all_reduce_nothing_is_proved():
    unknown = [each._replace(all_reduce_seconds=float("nan")) for each in readings(120, 0.29)]
    assert find_straggler({0: list(readings(120)), 1: unknown}) is None


def test_workers_that_do_not_wait_for_one_another_have_no_straggler():
    assert find_straggler({0: list(readings(120, 0.2, 0.2)), 1: list(readings(120, 0.3, 0.3))}) is None


def test_only_the_newest_attempt_counts_and_only_if_all_are_in_it():
    old = list(readings(120, 0.29))
    new = list(readings(120, 0.2, attempt=2, begin=BEGIN + 200))
    assert find_straggler({0: [*readings(120), *new], 1: [*old, *new]}) is None
    assert find_straggler({0: [*readings(120), *new], 1: old}) is None


def test_short_time_proves_nothing():
    assert find_straggler({0: list(readings(9)), 1: list(readings(9, 0.29))}) is None
    assert find_straggler({}) is None
    assert find_straggler({0: [], 1: []}) is None


def _pace(rank: int, found: Iterator[PaceReading], boot: str = "one") -> Pace:
    return Pace(rank, ProcessIdentity(1, f"node-{boot}", boot, "1"), tuple(found))


@pytest.mark.parametrize("hours", [1, -1, 30])
def test_clock_of_another_host_that_is_wrong_by_hours_is_found_and_corrected(hours):
    other = _pace(1, readings(300, begin=BEGIN + 3600 * hours), "two")
    clock = on_one_clock([_pace(0, readings(300)), other])
    assert clock.ahead == {1: pytest.approx(3600 * hours, abs=1)}
    assert [each.time for each in clock.readings[1]] == pytest.approx([each.time for each in readings(300)], abs=1)


def test_clock_that_is_turned_back_during_an_attempt_does_not_move_the_readings():
    turned = [each._replace(time=each.time - 3600 * (place > 50)) for place, each in enumerate(readings(100))]
    clock = on_one_clock([_pace(0, iter(turned)), _pace(1, readings(100))])
    assert [each.time for each in clock.readings[0]] == [each.time for each in readings(100)]
    assert clock.ahead == {}


def test_equal_clocks_and_workers_at_their_own_pace_are_left_as_they_are():
    others = [_pace(1, readings(300, begin=BEGIN + 2), "two"), _pace(2, readings(300, step=0.6), "three")]
    assert on_one_clock([_pace(0, readings(300)), *others]).ahead == {}


def test_same_host_is_never_shifted():
    clock = on_one_clock([_pace(0, readings(300)), _pace(1, readings(300, begin=BEGIN + 3600))])
    assert clock.ahead == {}
