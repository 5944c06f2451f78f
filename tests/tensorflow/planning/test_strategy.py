"""The step of one of several replicas: a share of the batch, one copy of the model, and the all-reduce."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.planning.live import strategy, subject

LIMIT = 300
WEIGHTS = 4 * (256 * 512 + 512 + 512 * 8 + 8)
CHILD = """
import json
import sys
import keras
import numpy as np
import oomph
import tensorflow as tf
from oomph.planning.breakdown import ARRIVED
from oomph.planning.program import Storage
from oomph.keras_bridge.graph import components
from oomph.planning.live import samples, strategy, subject
from oomph.planning.live.savers import with_optimizer
from oomph.planning.live.engine import engine_for

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

def told(reduces=None, devices=("CPU:0", "CPU:1")):
    mirrored = tf.distribute.MirroredStrategy(devices, reduces)
    with mirrored.scope():
        hidden = keras.layers.Dense(512, "relu")
        model = keras.Sequential([keras.Input((256,)), hidden, keras.layers.Dropout(0.5), keras.layers.Dense(8)])
        model.compile("adam", "mse", metrics=["mae"])
    given = {"x": np.zeros((101, 256), "float32"), "y": np.zeros((101, 8), "float32"), "batch_size": 25}
    whole = strategy.shared(model.distribute_strategy, samples.first_batch(model, given))
    subject.build(model, whole.share)
    engine = engine_for(model, whole.share, lambda text: None, runs=False)
    with with_optimizer(model, "sgd"):
        sgd = engine_for(model, whole.share, lambda text: None, runs=False)
    with with_optimizer(model, "adamw"):
        copies = {len(components(variable)) for variable in model.optimizer.variables}
    held, operations = engine.held, engine.program.operations

    def sizes(kind, of=engine):
        made = [one for one in of.program.operations if one.kind == kind]
        return [of.program.sizes[output].at(13) for one in made for output in one.outputs]

    return {
        "size": whole.size, "share": samples.size_of(whole.share), "replicas": whole.replicas.count,
        "weights": held.weights, "slots": held.slots, "reduced": sizes("CollectiveReduceV2"),
        "arrived": sum(sizes(ARRIVED)), "sgd_reduced": sizes("CollectiveReduceV2", sgd),
        "foreign": [made.name for made in operations if "replica_1" in made.name and made.storage is Storage.NEW
                    and made.kind != ARRIVED],
        "copies": sorted(copies),
        "updates": sum(made.is_update and made.kind == "AssignSubVariableOp" for made in operations),
        "unknown": engine.unknown, "at13": engine.at(13).peak.expected, "at1300": engine.at(1300).peak.expected,
        "sgd": sgd.at(13).peak.expected, "runs": strategy.can_measure_one(mirrored, "CPU:0"),
    }

def gathered():
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with mirrored.scope():
        model = keras.Sequential([keras.Input((40,)), keras.layers.Embedding(300, 64), keras.layers.Flatten()])
        model.compile("adam", "mse")
    x, y = np.zeros((100, 40)), np.zeros((100, 2560), "float32")
    whole = strategy.shared(mirrored, samples.first_batch(model, {"x": x, "y": y, "batch_size": 25}))
    subject.build(model, whole.share)
    program = engine_for(model, whole.share, lambda text: None, runs=False).program
    made = [one for one in program.operations if one.kind == "CollectiveGatherV2"]
    plan = oomph.plan(model, x, y, batch_size=25, gpu="1GiB")
    return {
        "largest": max(program.sizes[one.outputs[0]].at(13) for one in made),
        "of_one": max(program.sizes[tensor].at(13) for one in made for tensor in one.inputs),
        "plan": [plan.batch, plan.replicas, plan.max_batch, plan.micro_batch],
    }

print(json.dumps([told(), told(tf.distribute.ReductionToOneDevice()), gathered(), told(devices=("GPU:0", "GPU:1"))]))
"""


@pytest.fixture(scope="module")
def child() -> list[dict[str, Any]]:
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def told(child) -> list[dict[str, Any]]:
    return child[:2]


@pytest.mark.slow
def test_gathered_gradients_use_the_memory_of_all_replicas(child) -> None:
    gathered = child[2]
    assert gathered["of_one"] == 13 * 40 * 64 * 4, "the gradient of an embedding, a row for each word"
    assert gathered["largest"] == 2 * gathered["of_one"]


@pytest.mark.slow
def test_a_model_under_a_strategy_can_be_planned_from_python(child) -> None:
    batch, replicas, most, micro_batch = child[2]["plan"]
    assert (batch, replicas, micro_batch) == (25, 2, 13)
    assert most > 25
    assert most % 2 == 0


def test_absent_gpus_are_planned_for_like_present_ones(child) -> None:
    """The variables of all replicas, and their updates, are placed on the CPU."""
    here, absent = child[0], child[3]
    assert absent["foreign"] == []
    assert absent["arrived"] < 100
    assert absent["at13"] == pytest.approx(here["at13"], rel=0.02)
    assert absent["updates"] == 4


def test_the_first_replica_takes_the_larger_share_of_an_uneven_batch(told) -> None:
    assert [(each["size"], each["share"], each["replicas"]) for each in told] == [(25, 13, 2)] * 2


def test_only_one_copy_of_weights_and_slots_is_counted(told) -> None:
    for each in told:
        assert each["weights"] == pytest.approx(WEIGHTS, rel=0.02)
        assert each["slots"] == pytest.approx(2 * WEIGHTS, rel=0.02)


def test_program_does_not_contain_other_replicas_operations(told) -> None:
    for each in told:
        assert each["foreign"] == []
        assert each["updates"] == 4, "each variable once"
        assert each["unknown"] == []


def test_gradients_are_packed_into_one_tensor_and_reduced_in_place(told) -> None:
    collective, _ = told
    assert collective["reduced"] == [WEIGHTS]
    assert 6 * WEIGHTS <= collective["at13"] < 7.5 * WEIGHTS, "weights, slots, gradients, packed and taken apart"
    assert collective["at1300"] > collective["at13"] + 1287 * 512 * 4


def test_gradients_of_other_replicas_arrive_on_the_reducing_device(told) -> None:
    collective, to_one_device = told
    assert collective["arrived"] < 100, "the logs of the step"
    assert to_one_device["reduced"] == []
    assert WEIGHTS <= to_one_device["arrived"] < 1.1 * WEIGHTS


def test_replacement_optimizer_belongs_to_the_strategy(told) -> None:
    collective, _ = told
    assert collective["copies"] == [2], "its slots are on each device"
    assert collective["sgd_reduced"] == [WEIGHTS]
    assert 4 * WEIGHTS <= collective["sgd"] < 5 * WEIGHTS, "as Adam, without its slots"


def test_replica_memory_is_measurable_on_its_gpu_but_not_a_shared_cpu(told) -> None:
    assert [each["runs"] for each in told] == [False, False]
    assert strategy.can_measure_one(tf.distribute.get_strategy(), "CPU:0")
    two = SimpleNamespace(
        num_replicas_in_sync=2,
        extended=SimpleNamespace(worker_devices=[f"/job:localhost/replica:0/task:0/device:GPU:{n}" for n in (0, 1)]),
    )
    assert strategy.can_measure_one(two, "GPU:0")
    two.extended.worker_devices.reverse()
    assert not strategy.can_measure_one(two, "GPU:0")


def mirrored(replicas: int, devices: int) -> Any:
    class Several(tf.distribute.MirroredStrategy):
        num_replicas_in_sync = replicas
        extended = SimpleNamespace(worker_devices=[f"GPU:{n}" for n in range(devices)])

        def __init__(self) -> None:
            """Without devices."""

    return Several()


def test_strategies_without_one_model_per_local_replica_are_rejected() -> None:
    strategy.check(mirrored(2, 2), "fit")
    strategy.check(SimpleNamespace(num_replicas_in_sync=1), "train_on_batch")
    with pytest.raises(ExamineError, match="SimpleNamespace with several replicas cannot be planned"):
        strategy.check(SimpleNamespace(num_replicas_in_sync=2), "fit")
    with pytest.raises(ExamineError, match="several workers"):
        strategy.check(mirrored(4, 2), "fit")
    with pytest.raises(ExamineError, match="the whole batch"):
        strategy.check(mirrored(2, 2), "train_on_batch")


def test_a_single_local_replica_gets_a_note_about_several_gpus() -> None:
    said = strategy.note(mirrored(1, 1), 256)
    assert "one replica here" in said
    assert "--batch 64 plans each of 4 GPUs' share" in said
    assert strategy.note(mirrored(2, 2), 256) == ""
    assert strategy.note(tf.distribute.OneDeviceStrategy("CPU:0"), 256) == "", "it never has more"
    assert strategy.note(tf.distribute.get_strategy(), 256) == ""


def test_xla_is_assumed_off_under_a_strategy_unless_requested() -> None:
    """See `_resolve_auto_jit_compile` in Keras. Without a strategy, XLA is on."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        shared = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    alone = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    assert not subject.compiled_by_xla(shared, "auto", on_gpu=True)
    assert subject.compiled_by_xla(shared, "True", on_gpu=True)
    assert subject.compiled_by_xla(alone, "auto", on_gpu=True)
