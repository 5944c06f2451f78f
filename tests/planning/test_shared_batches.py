"""Batches shared by replicas, and the memory needed to sum their gradients."""

from __future__ import annotations

import pytest
from plans import plan

from oomph.planning.breakdown import ARRIVED, PACKED, Held, exchanged, items
from oomph.planning.gpu_costs import nccl_buffers
from oomph.planning.picture import as_page
from oomph.planning.plan import ALONE, PlannedReplicas, as_document
from oomph.planning.prediction import PredictedStep, predict
from oomph.planning.program import Operation, Program, Size, Storage
from oomph.planning.report import as_text

MIB = 1 << 20


@pytest.mark.parametrize(("batch", "share"), [(1, 1), (2, 1), (4, 1), (5, 2), (128, 32), (130, 33)])
def test_batch_share_is_the_largest_replicas_share(batch, share) -> None:
    assert PlannedReplicas(4).share(batch) == share
    assert ALONE.share(batch) == batch


def test_batch_for_a_given_share_gives_each_replica_that_share() -> None:
    assert PlannedReplicas(4).batch_of(32) == 128
    assert PlannedReplicas(4).share(PlannedReplicas(4).batch_of(33)) == 33


def test_batch_sharing_appears_in_text_page_and_document() -> None:
    shared = plan(replicas=4, batch=128)
    said = "Each of 4 replicas gets 32 samples of the batch of 128"
    assert said in " ".join("\n".join(as_text(shared, ["train.py"], 79)).split())
    assert said in as_page(shared, ["train.py"]).split("<pre>")[0]
    document = as_document(shared)
    assert (document["batch"], document["replicas"], document["samples_per_replica"]) == (128, 4, 32)


def test_uneven_batch_is_not_described_as_even() -> None:
    assert "gets at most 33 samples of the batch of 130" in PlannedReplicas(4).words(130)


def test_single_replica_is_not_mentioned() -> None:
    alone = plan()
    assert "replica" not in "\n".join(as_text(alone, ["train.py"], 79))
    assert "replica" not in as_page(alone, ["train.py"])
    assert as_document(alone)["replicas"] == 1


def all_reduce(reduction: str = "CollectiveReduceV2") -> Program:
    """Two gradients of one and two MiB: packed, summed, and unpacked."""
    new, forwarded = Storage.NEW, Storage.FORWARDED
    operations = [
        Operation("gradient_tape/one/MatMul", "MatMul", (), (0,), (), new),
        Operation("gradient_tape/two/MatMul", "MatMul", (), (1,), (), new),
        Operation("adam/concat", "ConcatV2", (0, 1), (2,), (), new),
        Operation("adam/reduced", reduction, (2,), (3,), (), forwarded),
        Operation("adam/split", "SplitV", (3,), (4, 5), (), new),
        Operation("adam/update_0/Mul", "Mul", (4,), (6,), (), new, is_update=True),
        Operation("adam/update_1/Mul", "Mul", (5,), (7,), (), new, is_update=True),
    ]
    sizes = [Size(mib * MIB) for mib in (1, 2, 3, 3, 1, 2, 1, 2)]
    return Program(operations, sizes, frozenset({6, 7}))


@pytest.mark.parametrize("reduction", ["CollectiveReduceV2", "NcclAllReduce"])
def test_packed_and_reduced_gradients_are_itemised_separately(reduction) -> None:
    program = all_reduce(reduction)
    assert exchanged(program) == {2, 3, 4, 5}
    found = {
        item.name: item.size.expected for item in items(program, predict(PredictedStep(program, 0), 1), Held(0, 0, 0))
    }
    assert found[PACKED] >= 3 * MIB


def test_unrelated_concatenation_is_not_counted_as_exchanged() -> None:
    assert exchanged(all_reduce("AddN")) == frozenset()


def test_tensor_from_another_replica_is_counted_as_exchanged() -> None:
    copy = Operation("replica_1/MatMul/copy", ARRIVED, (), (0,), (), Storage.NEW)
    assert exchanged(Program([copy], [Size(MIB)], frozenset())) == {0}


def test_nccl_memory_is_assumed_and_cites_its_source() -> None:
    item = nccl_buffers()
    assert (item.basis, item.size.expected) == ("assumed", 0), "outside of what TensorFlow's allocator gives"
    assert item.size.high > 500 * MIB
    assert "NVIDIA/nccl#964" in item.source
