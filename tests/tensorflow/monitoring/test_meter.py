"""A meter writes its readings to the board and never disturbs training."""

from __future__ import annotations

import os
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from measured_fit import BATCHES

from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.live import readings
from oomph.monitor.live.meter import Meter
from oomph.monitor.live.readings import WeightLooks, not_finite


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def meter(tmp_path, clock, told):
    meter = Meter(TrainingBoard(tmp_path), told.append, clock)
    meter.begin(None, 2)
    meter.begin_epoch(0, steps_per_epoch=10)
    yield meter
    meter.wait.stop()


@pytest.fixture
def board(tmp_path):
    reader = BoardReader(tmp_path)
    return lambda: reader.read()[0]


def test_measured_times_exclude_the_first_execution(meter, clock, board):
    meter.wait.add(60.0)
    clock.now += 60
    meter.count()
    for _ in range(4):
        meter.wait.add(0.5)
        clock.now += 2
        meter.count()
    values = board()
    assert values["steps_total"] == values["step_of_epoch"] == 5
    assert values["step_seconds_total"] == 8
    assert (values["input_wait_seconds_total"], values["input_batches_total"]) == (pytest.approx(2.0), 4)
    assert (values["epoch"], values["epochs"], values["steps_per_epoch"]) == (1, 2, 10)


def test_measured_times_exclude_evaluation(meter, clock, board):
    for _ in range(2):
        clock.now += 1
        meter.wait.add(0.25)
        meter.count()
    meter.pause()
    clock.now += 30
    meter.wait.add(30.0)
    meter.go_on()
    clock.now += 1
    meter.wait.add(0.25)
    meter.count()
    values = board()
    assert (values["step_seconds_total"], values["input_wait_seconds_total"]) == (2, pytest.approx(0.5))


def test_unmeasured_input_wait_is_left_off_the_board(meter, clock, board):
    for _ in range(3):
        clock.now += 1
        meter.count()
    assert "input_wait_seconds_total" not in board()


def test_board_is_not_written_at_every_step(meter, clock, board):
    meter.count()
    before = board()
    clock.now += 0.5
    meter.count()
    assert board() == before


def test_failing_meter_is_reported_once_and_training_continues(meter, clock, told, monkeypatch):
    monkeypatch.setattr(meter, "_write", lambda values: 1 / 0)
    for _ in range(3):
        clock.now += 5
        meter.count()
        meter.end_epoch()
    assert told == ["ZeroDivisionError: division by zero; training is no longer being measured"]


def test_a_forked_process_does_not_write_to_its_parents_board(meter, clock, board, monkeypatch):
    meter.count()
    before = board()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    clock.now += 5
    meter.count()
    assert board() == before


def test_nothing_is_measured_without_a_board(told):
    meter = Meter(None, told.append)
    meter.begin()
    meter.count()
    meter.end()
    assert meter.is_off
    assert told == []


class Memory:
    """A device that holds 1000 bytes."""

    def in_use_bytes(self):
        return 1000

    def values(self):
        return {"allocator_in_use_bytes": 1000, "allocator_peak_bytes": 2000, "allocator_limit_bytes": None}


def test_memory_is_recorded_each_second_at_first_and_per_epoch(meter, clock, tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.monitor.live.meter.FullestDevice", Memory)
    for _ in range(500):
        clock.now += 0.01
        meter.count()
    meter.end_epoch()
    meter.begin_epoch(1)
    meter.count()
    meter.end_epoch()
    values, baselines = BoardReader(tmp_path).read()
    assert [(each.step, each.epoch) for each in baselines] == [
        (101, 0), (201, 0), (301, 0), (401, 0), (500, 1), (501, 2),
    ]  # fmt: skip
    assert values["allocator_peak_bytes"] == 2000
    assert "allocator_limit_bytes" not in values


def test_later_memory_is_recorded_every_200_steps_or_by_elapsed_time(meter, clock, tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.monitor.live.meter.FullestDevice", Memory)
    meter.begin()
    clock.now += 1000.0
    meter.count()
    for _ in range(500):
        clock.now += 0.01
        meter.count()
    for _ in range(10):
        clock.now += 5
        meter.count()
    _, baselines = BoardReader(tmp_path).read()
    assert [each.step for each in baselines] == [1, 203, 405, 505, 510]


def test_metrics_of_a_fit_are_measured(small_model, numbers, measured):
    history = small_model().fit(*numbers, batch_size=8, epochs=2, verbose=0, callbacks=[measured])
    values = measured.values
    assert values["steps_total"] == 2 * BATCHES
    assert values["examples_total"] == 2 * 8 * BATCHES
    assert values["not_finite_weights"] == values["not_finite_loss"] == 0
    assert values["loss"] > 0
    assert values["recent_loss"] == pytest.approx(history.history["loss"][-1], rel=0.5)


def test_nan_weights_with_a_finite_loss_are_counted(small_model, numbers, measured):
    """A ReLU turns NaN into 0, so the loss stays finite, and only the weights reveal the NaN."""
    x, y = numbers
    model = small_model(keras.layers.Dense(8, activation=lambda x: tf.where(x > 0, x, 0.0)), optimizer="sgd")
    kernel = model.layers[0].kernel
    broken = kernel.numpy()
    broken[:, 3] = np.nan
    kernel.assign(broken)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[measured])
    assert np.isfinite(measured.values["loss"])
    assert measured.values["not_finite_loss"] == 0
    assert measured.values["not_finite_weights"] >= 4


def test_a_nan_loss_is_counted(small_model, numbers, measured):
    x, y = numbers
    small_model().fit(x * np.nan, y, batch_size=8, verbose=0, callbacks=[measured])
    assert measured.values["not_finite_loss"] == 1


@pytest.mark.alone
def test_counting_a_step_takes_less_than_ten_microseconds(tmp_path):
    """In addition to the cost of measuring the wait in the traced step (benchmarks/monitor_cost.py)."""
    meter = Meter(TrainingBoard(tmp_path), print)
    meter.begin()
    meter.begin_epoch(0)
    began = time.process_time()
    for _ in range(20_000):
        meter.count()
    assert (time.process_time() - began) / 20_000 < 10e-6
    meter.wait.stop()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_nan_and_infinity_in_the_weights_is_counted(dtype):
    kernel = tf.Variable(tf.cast([[1.0, np.nan], [np.inf, -np.inf]], dtype))
    assert not_finite([kernel, tf.Variable([1.0]), tf.Variable([1])]) == 3


def test_finite_weights_whose_sum_overflows_are_not_counted():
    assert not_finite([tf.Variable(tf.fill([4], tf.float32.max)), tf.Variable(tf.fill([4], tf.float16.max))]) == 0


def test_infinities_of_both_signs_are_counted():
    assert not_finite([tf.Variable([np.inf, -np.inf, 1.0])]) == 2


def test_model_without_variables_has_no_nonfinite_weights():
    assert not_finite([]) == 0


def test_slow_weight_checks_are_run_less_often(monkeypatch):
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


def test_weight_checks_stop_when_device_memory_runs_out(monkeypatch):
    def full(_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(readings, "not_finite", full)
    now = [0.0]
    looks = WeightLooks(lambda: now[0])
    assert looks.look([]) is None
    monkeypatch.undo()
    now[0] = 1e6
    assert looks.look([]) is None
