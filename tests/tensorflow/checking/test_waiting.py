"""How long steps wait for their data, and the pipeline changes that are tried."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.pipelines.rebuilding import in_any_order, linear, rebuilt
from oomph.preflight.facts.data import DATASET, Data
from oomph.preflight.live.pipeline_changes import Trainer, attempts_for, changes_that_pay, measure
from oomph.preflight.live.stages import stages_of

ROWS = tf.data.Dataset.from_tensor_slices((np.arange(240, dtype="float32")[:, None], np.arange(240)))


def doubled(x, y):
    return x * 2, y


def centred(x, y):
    return x - tf.reduce_mean(x), y


def slowly(x, y):
    def wait(value):
        time.sleep(0.002)
        return value

    x = tf.numpy_function(wait, [x], tf.float32)
    x.set_shape((1,))
    return x, y


def trainer():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return Trainer(model)


def known(dataset):
    return Data(DATASET, stages=stages_of(dataset))


def lines(dataset, epochs=1):
    return [attempt.line for attempt in attempts_for(linear(dataset), known(dataset), epochs)]


def test_slow_map_is_reported_as_the_main_cause_of_input_wait():
    dataset = ROWS.map(slowly).batch(8)
    waiting = measure(dataset, known(dataset), trainer())
    assert waiting is not None
    assert waiting.share > 0.5
    assert max(waiting.costs, key=lambda cost: cost.seconds).function == "slowly"


def test_input_wait_is_not_measured_on_a_single_batch():
    assert measure(ROWS.batch(240), Data(DATASET), trainer()) is None


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (ROWS.map(doubled).batch(8).prefetch(1), ["doubled, num_parallel_calls", "batch(8).map(doubled)"]),
        (ROWS.map(doubled, num_parallel_calls=2).batch(8).prefetch(1), ["batch(8).map(doubled)"]),
        (ROWS.batch(8).map(doubled, num_parallel_calls=2).prefetch(1), []),
        (ROWS.batch(8), ["prefetch"]),
        (ROWS.interleave(lambda x, y: tf.data.Dataset.from_tensors((x, y))).batch(8).prefetch(1), ["interleave"]),
    ],
)
def test_pipeline_changes_worth_trying_are_proposed(dataset, expected):
    found = lines(dataset)
    assert len(found) == len(expected)
    assert all(part in line for part, line in zip(expected, found, strict=True))


def test_map_that_uses_the_whole_element_is_not_moved_after_batching():
    x = tf.data.Dataset.from_tensor_slices(
        (np.random.default_rng(0).normal(size=(64, 4)).astype("float32"), np.zeros(64))
    )
    dataset = x.map(centred, num_parallel_calls=2).batch(8).prefetch(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert lines(dataset) == [".batch(8).map(centred)"]
    assert changes_that_pay(dataset, known(dataset), Trainer(model), 1) == []


def values(dataset):
    return [float(x[0]) for x, _ in dataset]


def test_rebuilt_pipeline_yields_the_same_values():
    dataset = ROWS.shuffle(240, seed=1).map(doubled).take(100).skip(3).repeat(2)
    again = rebuilt(linear(dataset), {1: lambda before: before.shuffle(240, seed=1)})
    assert values(again) == values(dataset)


def test_unordered_pipeline_yields_every_element_once():
    dataset = ROWS.shuffle(240, seed=1).map(doubled).repeat()
    assert values(in_any_order(dataset)) == [2.0 * number for number in range(240)]
    zipped = tf.data.Dataset.zip((ROWS.shuffle(8), ROWS))
    assert in_any_order(zipped.map(lambda a, b: a)) is None  # a shuffle that cannot be left out
