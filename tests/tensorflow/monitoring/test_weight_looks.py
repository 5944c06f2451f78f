"""Looks at the weights find every NaN, and cost no more than their share of the time."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.monitor.live import readings
from oomph.monitor.live.readings import WeightLooks, not_finite


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_nan_and_infinity_in_the_weights_is_counted(dtype):
    kernel = tf.Variable(tf.cast([[1.0, np.nan], [np.inf, -np.inf]], dtype))
    assert not_finite([kernel, tf.Variable([1.0]), tf.Variable([1])]) == 3


def test_finite_weights_whose_sum_overflows_are_not_counted():
    assert not_finite([tf.Variable(tf.fill([4], tf.float32.max)), tf.Variable(tf.fill([4], tf.float16.max))]) == 0


def test_infinities_of_both_signs_are_counted():
    assert not_finite([tf.Variable([np.inf, -np.inf, 1.0])]) == 2


def test_no_variables_count_as_no_nonfinite_weights():
    assert not_finite([]) == 0


def test_slow_weight_checks_are_made_less_often(monkeypatch):
    now = [0.0]

    def slow(_):
        now[0] += 0.5
        return 0

    monkeypatch.setattr(readings, "not_finite", slow)
    looks, seen, took = WeightLooks(lambda: now[0]), 0, 0.0
    while now[0] < 3600:
        now[0] += 0.1
        before = now[0]
        seen += looks.look([]) is not None
        took += now[0] - before
    assert took / now[0] <= 0.0055
    assert seen > 10


def test_weight_checks_stop_after_running_out_of_device_memory(monkeypatch):
    def full(_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(readings, "not_finite", full)
    now = [0.0]
    looks = WeightLooks(lambda: now[0])
    assert looks.look([]) is None
    monkeypatch.undo()
    now[0] = 1e6
    assert looks.look([]) is None
