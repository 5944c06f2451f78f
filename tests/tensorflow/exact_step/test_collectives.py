"""The collective operations of several workers: which belong together, and when a step may start them."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from oomph.exact_step.micro_batch.exactness import EXACT, RESTART_ONLY, Promise, promise_before_tracing
from oomph.keras_bridge.workers import Collectives, collectives_before, collectives_in

NAME = "MultiWorkerMirroredStrategy"


class OneOfTwo(tf.distribute.MultiWorkerMirroredStrategy):
    """A strategy that only says that it has two workers, of which this is one."""

    num_replicas_in_sync = 2
    extended = SimpleNamespace(worker_devices=("/job:worker/task:0/device:CPU:0",))

    def __init__(self) -> None:
        """Connect to nobody."""


@pytest.fixture
def numbers():
    """Return the numbers of two groups of devices, as TensorFlow keeps them."""
    return {1: {"GPU:0": 100, "GPU:1": 100}, 2: {"CPU:0": 107}}


@pytest.fixture
def collectives(numbers):
    keys = SimpleNamespace(_instance_key_table=numbers)
    return Collectives(SimpleNamespace(extended=SimpleNamespace(_collective_keys=keys)))


def test_failed_step_is_repeated_with_the_numbers_of_its_first_try(collectives, numbers):
    before = collectives.numbers()
    numbers[1]["GPU:0"] += 3
    numbers[2]["CPU:0"] += 1
    collectives.go_back(before)
    assert numbers == before == {1: {"GPU:0": 100, "GPU:1": 100}, 2: {"CPU:0": 107}}


def test_what_exchanges_nothing_uses_up_no_numbers(collectives, numbers):
    with collectives.at_rest():
        numbers[1]["GPU:1"] += 5
    assert numbers[1]["GPU:1"] == 100


def exchanged(value):
    """Stand in for a collective operation: it takes a number when the function is called."""
    late = ops.get_default_graph().capture_call_time_value(lambda: tf.constant(1), tf.TensorSpec([], tf.int32))
    return value + late


@pytest.mark.parametrize(("early", "late", "count"), [(False, True, 0), (True, True, 1), (True, False, 1)])
def test_step_may_exchange_values_only_once_it_commits(early, late, count):
    """The collective operations that may start before are found, however they depend on the rest of the step."""
    commits = tf.Variable(0)

    @tf.function(autograph=False)
    def step(x):
        x = exchanged(x) if early else x
        with tf.control_dependencies([x, commits.assign_add(1)]):
            y = tf.identity(x)
        return exchanged(y) if late else y

    graph = step.get_concrete_function(tf.constant(1)).graph
    assert len(collectives_before(graph, commits)) == count
    assert len(collectives_in(graph)) == early + late


@pytest.mark.parametrize(
    ("options", "step", "promise"),
    [
        ({}, "train_step", Promise(EXACT)),
        ({"jit_compile": True}, "train_step", Promise(RESTART_ONLY, f"jit_compile under {NAME}")),
        ({"run_eagerly": True}, "train_step", Promise(RESTART_ONLY, "run_eagerly with several replicas")),
        ({}, "test_step", Promise(RESTART_ONLY, f"evaluation under {NAME}")),
    ],
)
def test_promise_under_several_workers(options, step, promise):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model._distribute_strategy = OneOfTwo()
    model.compile("sgd", "mse", **{"jit_compile": False, **options})
    assert promise_before_tracing(model, step) == promise
