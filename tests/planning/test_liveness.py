"""Small programs whose memory and order can be worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from oomph.planning.breakdown import Held, items, layers, timeline
from oomph.planning.liveness import Order, schedule, simulate
from oomph.planning.plan import Interval
from oomph.planning.prediction import PredictedStep, predict, widened
from oomph.planning.program import Operation, Program, Size, Storage

KIB = 1024


def operation(name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], **more: object) -> Operation:
    fields = {"kind": "Op", "before": (), "storage": Storage.NEW} | more
    return Operation(name=name, inputs=inputs, outputs=outputs, **fields)  # type: ignore[arg-type]


def chain(storage: Storage) -> Program:
    """a -> b -> c, each with one KiB per sample; c is returned."""
    operations = [
        operation("a", (), (0,), kind="Placeholder"),
        operation("b", (0,), (1,), storage=storage),
        operation("c", (1,), (2,), storage=storage),
    ]
    return Program(operations, [Size(0, KIB)] * 3, frozenset({2}))


def test_tensor_is_kept_until_its_last_reader_has_finished() -> None:
    assert simulate(chain(Storage.NEW), 4, Order.AS_TRACED).peak == 2 * 4 * KIB


@pytest.mark.parametrize("storage", [Storage.FORWARDED, Storage.SHARED])
def test_unneeded_memory_is_reused(storage: Storage) -> None:
    assert simulate(chain(storage), 4, Order.AS_TRACED).peak == 4 * KIB


def test_memory_still_needed_by_another_operation_is_not_reused() -> None:
    program = chain(Storage.FORWARDED)
    more = [*program.operations, operation("d", (0, 2), (3,), storage=Storage.FORWARDED)]
    assert simulate(Program(more, [Size(0, KIB)] * 4, frozenset({3})), 1, Order.AS_TRACED).peak == 2 * KIB


def test_peak_includes_scratch_memory_but_not_held_memory() -> None:
    operations = [
        operation("v", (), (0,), storage=Storage.HELD),
        operation("f", (0,), (1,), workspace=Size(8 * KIB)),
    ]
    run = simulate(Program(operations, [Size(64 * KIB), Size(KIB)], frozenset()), 1, Order.AS_TRACED, held=64 * KIB)
    assert run.peak == 9 * KIB
    assert run.at == 1


def test_operation_waits_for_its_predecessors() -> None:
    operations = [
        operation("late", (), (0,), before=(1,)),
        operation("early", (), (1,)),
    ]
    run = simulate(Program(operations, [Size(KIB)] * 2, frozenset({0})), 1, Order.FIRST_READY)
    assert run.ran == (1, 0)


def test_each_worker_adds_the_scratch_memory_of_one_operation() -> None:
    operations = [operation(str(number), (), (number,), work=Size(100)) for number in range(4)]
    program = Program(operations, [Size(KIB)] * 4, frozenset())
    peaks = [simulate(program, 1, Order.AS_TRACED, workers=workers).peak for workers in (1, 2, 4)]
    assert peaks == [KIB, 2 * KIB, 4 * KIB]


def test_interval_contains_the_peak_and_grows_with_the_batch() -> None:
    step = PredictedStep(chain(Storage.NEW), held=256 * KIB)
    peaks = [predict(step, batch).peak for batch in (1, 8, 64)]
    for peak, batch in zip(peaks, (1, 8, 64), strict=True):
        truth = 256 * KIB + 2 * batch * KIB
        assert peak.low <= truth <= peak.high
    assert peaks[0].high < peaks[1].high < peaks[2].high


def test_assumed_sizes_widen_the_interval() -> None:
    known, assumed = (widened(Interval(100, 120, 150), 10, is_assumed) for is_assumed in (False, True))
    assert (known.low, known.expected, known.high) == (100, 120, 160)
    assert assumed.low < known.low
    assert assumed.high > known.high


def test_memory_items_add_up_to_the_expected_peak() -> None:
    program = chain(Storage.NEW)
    held = Held(weights=100 * KIB, slots=50 * KIB, other=KIB)
    prediction = predict(PredictedStep(program, held.total), 16)
    parts = items(program, prediction, held)
    assert sum(item.size.expected for item in parts) == prediction.peak.expected
    assert {item.name: item.size.expected for item in parts}["weights"] == 100 * KIB


def test_activations_are_listed_by_layer_and_the_timeline_is_ordered() -> None:
    operations = [
        operation("x", (), (0,), kind="Placeholder"),
        operation("model/conv_2/Conv2D", (0,), (1,)),
        operation("gradient_tape/model/conv_2/Grad", (1,), (2,)),
    ]
    program = Program(operations, [Size(KIB), Size(4 * KIB), Size(2 * KIB)], frozenset())
    run = simulate(program, 1, Order.AS_TRACED)
    assert [(layer.name, layer.size) for layer in layers(program, run, {"conv"})] == [("conv", 4 * KIB)]
    moments = timeline(program, run, held=0)
    assert [moment.operation for moment in moments] == [made.name for made in operations]
    assert max(moment.size for moment in moments) == run.peak


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


def test_idle_thread_steals_the_oldest_queued_operation() -> None:
    found = pool([False] * 4, workers=2)
    found.add(0, [0, 1, 2, 3])
    assert found.take(1) == 0
    assert found.take(0) == 3


def test_initially_ready_operations_are_spread_over_all_threads() -> None:
    found = pool([False] * 40, workers=2)
    found.begin(range(40))
    first = [found.take(worker) for _ in range(20) for worker in (0, 1)]
    assert sorted(index for index in first if index is not None) == list(range(40))


def test_simple_execution_orders_are_followed() -> None:
    for order, wanted in (
        (Order.FIRST_READY, [2, 0, 1]),
        (Order.AS_TRACED, [0, 1, 2]),
    ):
        found = schedule(order, [False] * 3, 1, Random(0))
        found.begin([2])
        found.add(0, [0, 1])
        assert taken(found) == wanted
