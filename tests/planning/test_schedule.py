"""The order in which operations run, against TensorFlow's executor as its source describes it."""

from __future__ import annotations

from random import Random

from oomph.planning.schedule import Order, schedule


def pool(is_cheap: list[bool], workers: int = 1):
    return schedule(Order.THREAD_POOL, is_cheap, workers, Random(0))


def taken(found, worker: int = 0) -> list[int]:
    return list(iter(lambda: found.take(worker), None))


def test_thread_runs_the_newest_ready_operation_first() -> None:
    found = pool([False] * 4)
    found.add(0, [0, 1, 2, 3])
    assert taken(found) == [3, 2, 1, 0]


def test_cheap_operations_run_first_in_their_order() -> None:
    found = pool([False, True, False, True])
    found.add(0, [0, 1, 2, 3])
    assert taken(found) == [1, 3, 2, 0]


def test_idle_thread_takes_the_oldest_operation_put_away_by_another() -> None:
    found = pool([False] * 4, workers=2)
    found.add(0, [0, 1, 2, 3])
    assert found.take(1) == 0
    assert found.take(0) == 3


def test_initially_ready_operations_are_spread_over_all_threads() -> None:
    found = pool([False] * 40, workers=2)
    found.begin(range(40))
    first = [found.take(worker) for _ in range(20) for worker in (0, 1)]
    assert sorted(index for index in first if index is not None) == list(range(40))


def test_simple_orders_are_followed() -> None:
    for order, wanted in (
        (Order.FIRST_READY, [2, 0, 1]),
        (Order.AS_TRACED, [0, 1, 2]),
    ):
        found = schedule(order, [False] * 3, 1, Random(0))
        found.begin([2])
        found.add(0, [0, 1])
        assert taken(found) == wanted
