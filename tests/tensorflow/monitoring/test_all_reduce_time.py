"""The all-reduce is timed where gradients of several workers are added up, without changing what a step computes."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import tensorflow as tf

from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.live import all_reduce_time
from oomph.monitor.live.meter import Meter
from oomph.monitor.live.pacing import Pacing, has_peers
from oomph.monitor.pace import read_pace

DELAY = 0.02


def _slow_sum(strategy, reduce_op, value, replica_id, options):
    """Stand in for TensorFlow's all-reduce: the other worker has the same gradients, and is late."""

    def late(gradient):
        time.sleep(DELAY)
        return 2 * np.asarray(gradient)

    if tf.executing_eagerly():
        return [tf.convert_to_tensor(late(each)) for each in value]
    return [tf.ensure_shape(tf.numpy_function(late, [each], each.dtype), each.shape) for each in value]


def _plain_sum(strategy, reduce_op, value, replica_id, options):
    return [2 * each for each in value]


@pytest.fixture
def measured():
    return all_reduce_time._measured(_slow_sum)


def _seconds_of(step, times=3):
    step()
    before = all_reduce_time.seconds()
    for _ in range(times):
        step()
    return (all_reduce_time.seconds() - before) / times


@pytest.mark.parametrize("in_graph", [True, False])
def test_time_from_the_gradients_to_their_sum_is_added_up(measured, in_graph):
    gradients = [tf.constant([1.0, 2.0]), tf.constant([[3.0]])]

    def step():
        return measured(None, "SUM", gradients, 0, None)

    step = tf.function(step) if in_graph else step
    assert 0.9 * DELAY < _seconds_of(step) < 20 * DELAY
    np.testing.assert_array_equal(step()[0], [2.0, 4.0])
    np.testing.assert_array_equal(step()[1], [[6.0]])


def test_time_before_the_gradients_are_ready_does_not_count(measured):
    def slow(value):
        time.sleep(20 * DELAY)
        return value

    @tf.function
    def step():
        own = tf.ensure_shape(tf.numpy_function(slow, [tf.constant([1.0])], tf.float32), [1])
        return measured(None, "SUM", [own, tf.constant([1.0])], 0, None)

    assert _seconds_of(step) < 15 * DELAY


@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
def test_single_values_and_further_replicas_do_not_count(measured, replica, count):
    @tf.function
    def step():
        return measured(None, "SUM", [tf.constant([1.0])] * count, replica, None)

    assert (_seconds_of(step) > 0) == (replica == 0 and count == 2)


@pytest.mark.parametrize("in_graph", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_wait_until_all_workers_have_a_batch_counts_without_the_wait_for_the_own_batch(several, in_graph, monkeypatch):
    """A worker with trivial data does not wait for data if another worker's is late."""
    monkeypatch.setattr(all_reduce_time, "spans_workers", lambda strategy: several)
    own = tf.data.Dataset.range(9).map(_late_by(20 * DELAY))

    def agree(strategy, input_workers, optionals):
        late = _late_by(DELAY)(tf.cast(optionals[0][0].has_value(), tf.int64))
        return tf.reshape(late, [1])

    agree = all_reduce_time._measured_agreement(agree)

    def step(iterator):
        return agree(None, None, [[iterator.get_next_as_optional()]])

    step, iterator = tf.function(step) if in_graph else step, iter(own)
    found = _seconds_of(lambda: step(iterator))
    assert (0.9 * DELAY < found < 15 * DELAY) if several else found == 0


def _late_by(seconds):
    def late(value):
        return tf.ensure_shape(tf.numpy_function(lambda each: time.sleep(seconds) or each, [value], tf.int64), [])

    return late


def test_step_that_xla_compiles_still_compiles_and_is_not_measured():
    plain = all_reduce_time._measured(_plain_sum)

    @tf.function(jit_compile=True)
    def step():
        return plain(None, "SUM", [tf.constant([1.0]), tf.constant([2.0])], 0, None)

    assert _seconds_of(step) == 0
    assert [float(each[0]) for each in step()] == [2.0, 4.0]


def test_sparse_gradients_are_measured_as_well():
    plain = all_reduce_time._measured(lambda strategy, op, value, replica, options: value)
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([3, 1]))

    @tf.function
    def step():
        return plain(None, "SUM", [rows, tf.constant([2.0])], 0, None)[1]

    assert _seconds_of(step) > 0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, False),
        ("", False),
        ("{", False),
        ("[]", False),
        ('{"cluster": 5}', False),
        (json.dumps({"cluster": {"worker": ["a:1"]}}), False),
        (json.dumps({"cluster": {"worker": ["a:1", "b:1"]}}), True),
        (json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}}), True),
        (json.dumps({"cluster": {"worker": ["a:1"], "ps": ["c:1"]}}), False),
    ],
)
def test_peers_are_recognised_from_tf_config(config, expected):
    assert has_peers({} if config is None else {"TF_CONFIG": config}) is expected


def test_meter_of_a_worker_records_its_pace_once_a_second(tmp_path, measured):
    now = [100.0]
    meter = Meter(TrainingBoard(tmp_path), print, lambda: now[0], Pacing(tmp_path, 3))
    meter.begin(None, 1)
    meter.begin_epoch(0)
    gradients = [tf.constant([1.0]), tf.constant([1.0])]
    for _ in range(5):
        measured(None, "SUM", gradients, 0, None)
        now[0] += 2.0
        meter.count()
    meter.wait.stop()
    pace = read_pace(tmp_path, 0)
    assert pace is not None
    assert [(each.attempt, each.steps) for each in pace.readings][-1] == (3, 5)
    assert pace.newest.step_seconds == 8.0, "without the first"
    assert pace.newest.all_reduce_seconds > 4 * DELAY
    assert pace.newest.resident_bytes > 1 << 20
    assert BoardReader(tmp_path).read()[0]["all_reduce_seconds_total"] == pace.newest.all_reduce_seconds


def test_patch_of_tensorflow_is_made_once_and_taken_back():
    from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
    from oomph.process import undoing

    cls = TENSORFLOW.collective_all_reduce.value()
    original = TENSORFLOW.all_reduce_of_a_replica.of(cls)
    undoing.begin()
    all_reduce_time.listen()
    patched = TENSORFLOW.all_reduce_of_a_replica.of(cls)
    agreed = TENSORFLOW.agreement_on_data.value()
    all_reduce_time.listen()
    assert agreed is TENSORFLOW.agreement_on_data.value()
    assert patched is TENSORFLOW.all_reduce_of_a_replica.of(cls) is not original
    assert undoing.take_back() == []
    assert TENSORFLOW.all_reduce_of_a_replica.of(cls) is original
