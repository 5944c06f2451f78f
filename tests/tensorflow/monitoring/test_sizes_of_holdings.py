"""A census knows how large the variables, metrics and optimizers are that a container keeps."""

from __future__ import annotations

import sys
import types

import keras
import pytest
import tensorflow as tf

from oomph.monitor.live.holdings import holdings

MIB = 1 << 20


@pytest.fixture
def size_of(monkeypatch):
    """Return a function that tells how large a census takes a list of the script's to be."""

    def size(kept: list) -> float:
        module = types.ModuleType("users_script")
        module.__file__ = "/home/me/users_script.py"
        module.kept = kept
        monkeypatch.setitem(sys.modules, "users_script", module)
        found = {each.name: each for each in holdings(5.0, lambda kind, name: False)}
        return found["users_script.kept"].bytes / MIB

    return size


def metric() -> keras.metrics.Metric:
    return keras.metrics.MeanIoU(num_classes=512)  # one matrix of 512 × 512 int64: 2 MiB


def optimizer() -> keras.optimizers.Optimizer:
    made = keras.optimizers.Adam()
    made.build([keras.Variable(tf.zeros((256, 512)))])  # two moments of half a MiB each
    return made


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: tf.Variable(tf.zeros((512, 512))), 1.0),
        (lambda: keras.Variable(tf.zeros((512, 512))), 1.0),
        (metric, 2.0),
        (lambda: (0.5, {"metric": metric()}), 2.0),
        (optimizer, 1.0),
    ],
)
def test_variables_count_once_wherever_an_item_keeps_them(size_of, make, expected):
    assert size_of([make() for _ in range(10)]) == pytest.approx(10 * expected, rel=0.05)


def test_model_that_all_items_share_does_not_count(size_of):
    model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(512)])
    results = [{"model": model, "loss": float(number)} for number in range(10)]
    assert size_of(results) < 0.1
