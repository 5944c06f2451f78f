"""The input wait is measured where the batch is fetched, however it is fetched, without changing anything."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from measured_fit import BATCHES, Measured

from oomph.monitor.live import traced_time
from oomph.monitor.live.input_wait import CountedWait, InputWait

DELAY = 0.02


@pytest.fixture
def wait():
    wait = InputWait()
    wait.listen()
    yield wait
    wait.stop()


@pytest.mark.parametrize(
    "compiled",
    [
        {},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.slow),
        {"steps_per_execution": 4},
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_input_wait_is_measured_in_every_keras_execution_mode(small_model, dataset, measured, compiled):
    small_model(**compiled).fit(dataset(DELAY), epochs=2, verbose=0, shuffle=False, callbacks=[measured])
    values = measured.values
    counted = 2 * BATCHES - compiled.get("steps_per_execution", 1)  # the first execution is left out
    assert values["steps_total"] == 2 * BATCHES
    assert values["input_batches_total"] == counted
    assert counted * DELAY <= values["input_wait_seconds_total"] <= values["step_seconds_total"]


def test_computation_within_a_step_does_not_count_as_input_wait(small_model, dataset, measured):
    class Computes(keras.layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.numpy_function(lambda a: time.sleep(DELAY) or a, [x], tf.float32), x.shape)

    small_model(Computes()).fit(dataset(), verbose=0, shuffle=False, callbacks=[measured])
    share = measured.values["input_wait_seconds_total"] / measured.values["step_seconds_total"]
    assert share < 0.2


class Slow(keras.utils.PyDataset):
    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def __len__(self):
        return BATCHES

    def __getitem__(self, number):
        time.sleep(DELAY)
        return tuple(part[8 * number : 8 * number + 8] for part in self.numbers)


@pytest.mark.parametrize("kind", ["PyDataset", "generator"])
def test_input_wait_is_measured_for_python_data(small_model, numbers, measured, kind):
    """TensorFlow prefetches one batch of such data, which shortens the wait by the duration of the step."""
    slow = Slow(numbers)
    data = slow if kind == "PyDataset" else (slow[number] for number in range(BATCHES))
    small_model().fit(data, steps_per_epoch=BATCHES, verbose=0, shuffle=False, callbacks=[measured])
    values = measured.values
    assert 0.2 < values["input_wait_seconds_total"] / values["step_seconds_total"] <= 1


def test_input_wait_is_measured_in_a_step_traced_by_an_earlier_fit(small_model, dataset, measured, tmp_path):
    model, first = small_model(), Measured(tmp_path)
    for callback in (first, measured):
        model.fit(dataset(DELAY), verbose=0, shuffle=False, callbacks=[callback])
    assert measured.values["input_batches_total"] == BATCHES - 1
    assert measured.values["input_wait_seconds_total"] >= (BATCHES - 1) * DELAY


def test_validation_does_not_count_as_input_wait(small_model, dataset, measured):
    small_model().fit(
        dataset(), validation_data=dataset(DELAY), epochs=2, verbose=0, shuffle=False, callbacks=[measured]
    )
    assert measured.values["input_batches_total"] == 2 * BATCHES - 1
    assert measured.values["input_wait_seconds_total"] < BATCHES * DELAY


def test_input_wait_is_measured_in_python_and_traced_loops(wait, dataset):
    @tf.function
    def sum_of(iterator):
        found = 0.0
        for x, _ in iterator:  # AutoGraph turns it into a loop
            found += tf.reduce_sum(x)
        return found

    before = wait.read()
    for _ in dataset(DELAY):
        pass
    seconds = wait.read()
    assert seconds - before >= BATCHES * DELAY
    sum_of(iter(dataset(DELAY)))
    assert seconds + BATCHES * DELAY <= wait.read()


def test_input_wait_ignores_reads_by_other_threads_and_after_stopping(wait, dataset):
    before = wait.read()
    reading = threading.Thread(target=lambda: list(dataset()))
    reading.start()
    reading.join()
    wait.stop()
    list(dataset())
    assert wait.read() == before


def test_pipeline_error_is_raised_unchanged(wait):
    data = tf.data.Dataset.from_tensors([1.0]).map(lambda x: tf.debugging.check_numerics(x / 0.0, "not finite"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iter(data))
    assert list(tf.data.Dataset.range(2).as_numpy_iterator()) == [0, 1]


def test_counted_wait_excludes_time_spent_in_pauses(wait):
    counted = CountedWait(wait.read)
    wait.add(5.0)
    counted.leave_out_what_came()
    assert not counted.read()
    wait.add(1.0)
    counted.pause()
    wait.add(7.0)
    counted.go_on()
    wait.add(2.0)
    assert counted.read()
    assert counted.seconds == pytest.approx(3.0)
    counted.leave_out_what_came()
    wait.add(1.0)
    assert counted.read()
    assert counted.seconds == pytest.approx(4.0)


@pytest.mark.parametrize(
    "compiled",
    [
        {},
        pytest.param({"steps_per_execution": 3}, marks=pytest.mark.slow),
        pytest.param({"run_eagerly": True}, marks=pytest.mark.slow),
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_measuring_input_wait_does_not_change_the_weights(dataset, measured, compiled):
    """The step draws random numbers, whose seeds depend on what was traced before them."""

    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + tf.random.normal(tf.shape(x))

    def trained(callbacks):
        keras.utils.set_random_seed(3)
        noise = [] if "jit_compile" in compiled else [Noise()]  # XLA draws from tf.random without a seed
        layers = [keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5), *noise, keras.layers.Dense(2)]
        model = keras.Sequential(layers)
        model.compile("adam", "mse", **{"jit_compile": False, **compiled})
        data = dataset().shuffle(50, seed=None)
        model.fit(data, epochs=2, verbose=0, shuffle=False, validation_data=dataset(), callbacks=callbacks)
        return model.get_weights()

    for plain, watched in zip(trained([]), trained([measured]), strict=True):
        np.testing.assert_array_equal(watched, plain)


@pytest.mark.slow
def test_input_wait_is_measured_with_two_replicas(tmp_path):
    """Runs in a separate process, since devices cannot be split once they are in use."""
    script = """
        import sys, time
        from pathlib import Path
        sys.path[:0] = [sys.argv[1]]
        import numpy as np, tensorflow as tf, keras
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        from measured_fit import Measured
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            model.compile("adam", "mse", jit_compile=False)
        def delayed(x, y):
            return tf.ensure_shape(tf.numpy_function(lambda a: time.sleep(0.02) or a, [x], tf.float32), x.shape), y
        numbers = np.ones((128, 4), "f"), np.ones((128, 2), "f")
        data = tf.data.Dataset.from_tensor_slices(numbers).batch(8).map(delayed)
        measured = Measured(Path(sys.argv[2]))
        model.fit(data, epochs=2, verbose=0, shuffle=False, callbacks=[measured])
        assert not measured.problems, measured.problems
        share = measured.values["input_wait_seconds_total"] / measured.values["step_seconds_total"]
        assert 0.1 < share <= 1, share
    """
    lines = [line[8:] for line in script.splitlines()]
    here = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), here, tmp_path], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def deterministic():
    """Make operations deterministic until the end of the test."""
    from tensorflow.python.framework import config

    yield tf.config.experimental.enable_op_determinism
    config.disable_op_determinism()
    if traced_time._may_ask is not None:
        traced_time._may_ask.assign(True)


def listened():
    wait = InputWait()
    wait.listen()
    numbers = iter(tf.data.Dataset.range(100))
    return wait, tf.function(lambda: next(numbers))


def test_timestamps_are_not_taken_under_deterministic_operations(deterministic):
    """TensorFlow refuses to run a timestamp then, but a script that trains in plain Keras must train here."""
    deterministic()
    wait, fetch = listened()
    assert [int(fetch()) for _ in range(3)] == [0, 1, 2]
    wait.stop()


def test_functions_traced_earlier_still_run_under_deterministic_operations(deterministic):
    wait, fetch = listened()
    assert int(fetch()) == 0
    assert wait.read() > 0
    deterministic()
    assert [int(fetch()) for _ in range(3)] == [1, 2, 3]
    wait.stop()


def test_failed_input_wait_measurement_does_not_lose_a_batch(monkeypatch):
    monkeypatch.setattr(traced_time, "_time", lambda after: 1 / 0)
    wait, fetch = listened()
    assert [int(fetch()) for _ in range(3)] == [0, 1, 2]
    wait.stop()
