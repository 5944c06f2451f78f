"""The collective operations of several workers: which belong together, and when a step may start them."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from oomph.exact_step.micro_batch.exactness import EXACT, RESTART_ONLY, Promise, promise_before_tracing
from oomph.keras_bridge.workers import Collectives, collectives_before, collectives_in, reduced_together

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


def test_numbers_that_a_step_takes_can_be_given_back(collectives, numbers):
    @tf.function(autograph=False)
    def step():
        for device in ("GPU:0", "GPU:1", "GPU:1"):
            numbered(numbers[1], device)

    def numbered(group, device):
        def next_number():
            group[device] += 1
            return tf.constant(group[device])

        return ops.get_default_graph().capture_call_time_value(next_number, tf.TensorSpec([], tf.int32))

    before = collectives.numbers()
    taken = collectives.taken_by(step.get_concrete_function())
    assert numbers == before, "asking takes none"
    assert taken == {1: {"GPU:0": 1, "GPU:1": 2}, 2: {"CPU:0": 0}}
    step()
    numbers[2]["CPU:0"] += 1
    collectives.give_back(taken)
    assert numbers == {1: {"GPU:0": 100, "GPU:1": 100}, 2: {"CPU:0": 108}}


class Exchange:
    """A strategy whose other worker has the same values; `reduced` lists what was exchanged at a time."""

    def __init__(self, replicas: int) -> None:
        self.extended = SimpleNamespace(worker_devices=("CPU:0",) * replicas)
        self.reduced: list[list[float]] = []

    def experimental_local_results(self, value):
        return value if isinstance(value, tuple) else (value,)

    def experimental_distribute_values_from_function(self, value_fn):
        return tuple(value_fn(None) for _ in self.extended.worker_devices)

    def reduce(self, operation, values, axis):
        assert axis is None
        total = 2 * tf.add_n(list(values))
        self.reduced.append(total.numpy().tolist())
        return total / (2 * len(values)) if operation == "MEAN" else total


@pytest.mark.parametrize("replicas", [1, 2])
def test_values_of_one_type_are_exchanged_at_once(replicas):
    strategy = Exchange(replicas)
    loss, matrix = (tf.constant(1.5),) * replicas, (tf.constant([[1.0, 2.0], [3.0, 4.0]]),) * replicas
    count = (tf.constant(7, tf.int64),) * replicas
    found = reduced_together(strategy, "MEAN", [loss, count, matrix, tf.constant(2.5)])
    assert [np.asarray(each).tolist() for each in found] == [1.5, 7, [[1.0, 2.0], [3.0, 4.0]], 2.5]
    assert [len(each) for each in strategy.reduced] == [6, 1]
    assert [float(each) for each in reduced_together(strategy, "SUM", [loss, loss])] == [3.0 * replicas] * 2


def test_nothing_is_exchanged_if_there_is_nothing():
    assert reduced_together(Exchange(1), "MEAN", []) == []


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
