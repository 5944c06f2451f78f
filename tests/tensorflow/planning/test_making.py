"""Plans from an engine whose peak is a straight line."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.planning.batch_sizes import MOST
from oomph.planning.breakdown import Held
from oomph.planning.live.figures import Simulated, data_on
from oomph.planning.live.making import Making
from oomph.planning.live.subject import OpenSizes, PlannedTraining
from oomph.planning.liveness import Order, simulate
from oomph.planning.plan import ALONE, Device, Interval, Plan, PlannedReplicas, Saver
from oomph.planning.prediction import Prediction
from oomph.planning.program import Operation, Program, Size, Storage
from oomph.planning.verdict import FittingVerdict

MIB, GIB = 1 << 20, 1 << 30
SAVERS = (Saver("micro-batches", None, "", ""),)
STEP = [Operation("adam/Mul", "Mul", (), (0,), (), Storage.NEW, is_update=True)]


class Straight:
    """Ten MiB, plus one MiB per sample."""

    name, unknown, held, only, is_long = "graph", (), Held(MIB, 0, 0), None, False
    program = Program(STEP, [Size(MIB)], frozenset({0}))

    def at(self, batch: int) -> Prediction:
        peak = (10 + batch) * MIB
        typical = simulate(self.program, batch, Order.FIRST_READY)
        return Prediction(Interval(peak * 9 // 10, peak, peak * 11 // 10), typical)


def made(memory: int | None, batches: tuple[int, ...] = (), **changes: Any) -> Plan:
    is_gpu, is_card = changes.pop("is_gpu", True), changes.pop("is_card", False)
    device = None if memory is None else Device("a GPU", memory, memory, is_card=is_card, is_gpu=is_gpu)
    failed = changes.pop("failed", "")
    verdict = FittingVerdict(device, changes.pop("is_xla", False), MIB, changes.pop("doubt", ""), failed=failed)
    training = PlannedTraining("model", frozenset(), MIB, 32, ("float32",))
    figures = Simulated(Straight(), device, replicas=changes.get("replicas", ALONE))
    making = Making(training, figures, verdict, lambda text: None, lambda size, part, figures: SAVERS, **changes)
    return making.plan("train.py:1", list(batches) or [32])


def test_no_savers_are_offered_after_a_step_failed() -> None:
    assert made(GIB).savers == SAVERS
    assert made(GIB, failed="a real step failed").savers == ()


def test_a_micro_batch_is_never_larger_than_the_batch() -> None:
    roomy = made(4 * GIB)
    assert (roomy.batch, roomy.micro_batch) == (32, 32)
    assert roomy.max_batch > 2000
    narrow = made(30 * MIB)
    assert 0 < narrow.micro_batch < narrow.max_batch < 32


def test_micro_batches_are_not_planned_where_a_run_refuses_them() -> None:
    asked: list[str] = []
    refused = made(30 * MIB, refused=lambda: asked.append("") or "coupled")
    assert (refused.micro_batch, refused.max_batch, asked) == (None, made(30 * MIB).max_batch, [""])
    assert refused.savers == SAVERS
    made(GIB, refused=lambda: asked.append("") or "coupled", failed="a real step failed")
    assert asked == [""], "no further step is tried after one has failed"


@pytest.mark.parametrize(
    ("memory", "batches", "is_xla"),
    [(4 * GIB, (), False), (4 * GIB, (20_000,), False), (4 * GIB, (), True), (20 * MIB, (), False)],
)
def test_curve_covers_the_planned_sizes_and_exceeds_the_limit(memory, batches, is_xla) -> None:
    curve = made(memory, batches, is_xla=is_xla).curve
    sizes = [batch for batch, _ in curve]
    assert sizes == [1 << n for n in range(len(sizes))]
    assert sizes[-1] >= max((32, *batches))
    assert curve[-1][1].expected > memory
    assert sizes[-1] < 4 * max(32, *batches, memory // MIB)


def test_the_curve_ends_at_the_largest_size_tried() -> None:
    assert made(1 << 50).curve[-1][0] == MOST
    assert made(None).curve[-1][0] == 32


def test_doubts_about_sizes_appear_in_the_notes_and_leave_the_plan_open() -> None:
    plan = made(GIB, doubt="the data leave it open", sizes=OpenSizes("the data leave it open", "A note."))
    assert plan.notes[:2] == ("The data leave it open.", "A note.")
    assert plan.why_open == "the data leave it open"
    assert plan.max_batch is None


def test_the_optimizer_update_is_listed_as_a_separate_memory_item() -> None:
    assert [item.name for item in made(GIB).items][:2] == ["weights", "optimizer update"]


def test_memory_held_by_the_script_is_included_in_the_predicted_peak() -> None:
    pool = Device("the pool", GIB, GIB, is_card=False, is_gpu=False)
    gpu = Device("a GPU", GIB, GIB, is_card=False)
    on_pool, on_gpu = (Simulated(Straight(), device, data_on(device, [3 * MIB], 5 * MIB)) for device in (pool, gpu))
    assert on_pool.peak(8).expected == 18 * MIB + 4 * MIB + 5 * MIB, "a chunk of 4 MiB for an array of 3"
    assert on_gpu.peak(8).expected == 18 * MIB + 3 * MIB + 5 * MIB
    assert on_pool.peak(8).low - on_gpu.peak(8).low == 6 * MIB, "whether the rest lies on a GPU is not known"
    added = {item.name: (item.size.low, item.size.high, item.basis) for item in on_gpu.items(8)}
    assert added["arrays passed to fit"] == (3 * MIB, 3 * MIB, "counted")
    assert added["other memory held by the script"] == (0, 5 * MIB, "assumed")
    assert not data_on(None, [MIB], MIB)
    assert not data_on(gpu, [], 0)


def test_a_replica_needs_memory_for_its_share_of_the_batch() -> None:
    shared, alone = made(4 * GIB, (32, 35), replicas=PlannedReplicas(4)), made(4 * GIB, (8, 9))
    assert [each.batch for each in shared.estimates] == [32, 35]
    assert [each.peak.expected for each in shared.estimates] == [each.peak.expected for each in alone.estimates]
    assert (shared.batch, shared.replicas) == (32, 4)


def test_max_batch_covers_all_replicas_and_micro_batch_only_one() -> None:
    shared, alone = made(60 * MIB, replicas=PlannedReplicas(4)), made(60 * MIB)
    assert shared.max_batch % 4 == 0
    assert shared.max_batch // 4 <= alone.max_batch
    assert shared.max_batch // 4 > alone.max_batch // 2
    assert shared.micro_batch == 8, "a replica's share of 32, not 32"
    assert [batch for batch, _ in shared.curve][:3] == [4, 8, 16]


def test_estimates_without_a_real_step_have_wider_bounds() -> None:
    (shared,), (alone,) = made(4 * GIB, replicas=PlannedReplicas(2)).estimates, made(4 * GIB, (16,)).estimates
    assert shared.peak.expected == alone.peak.expected
    assert shared.peak.high == round(1.4 * shared.peak.expected) > alone.peak.high
    assert shared.peak.low == round(0.9 * shared.peak.expected)


def test_replicas_on_the_cpu_share_its_pool() -> None:
    """All CPU devices allocate from the same pool."""
    plan = made(4 * GIB, replicas=PlannedReplicas(3), is_gpu=False)
    one = made(4 * GIB, replicas=PlannedReplicas(3)).estimates[0].peak
    (item,) = [item for item in plan.items if item.name == "2 more replicas"]
    assert (item.size.expected, item.size.high) == (2 * one.expected, 2 * one.high)
    assert plan.estimates[0].peak.high == 3 * one.high
    assert plan.max_batch < made(4 * GIB, replicas=PlannedReplicas(3)).max_batch


def test_nccl_buffers_are_counted_only_with_several_gpus() -> None:
    assert "NCCL buffers" in [item.name for item in made(4 * GIB, replicas=PlannedReplicas(2), is_card=True).items]
    assert "NCCL buffers" not in [item.name for item in made(4 * GIB, is_card=True).items]


def test_a_note_on_the_strategy_comes_first() -> None:
    assert made(GIB, note="One replica here.").notes[0] == "One replica here."
