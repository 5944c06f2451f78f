"""Custom loops are watched without a trace in the errors that a user sees."""

from __future__ import annotations

import re
import traceback
from operator import methodcaller
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

from oomph.api.custom_step import steps_before
from oomph.api.guard import guard
from oomph.hooks import unguarded

_VARYING = re.compile(r"__inference_\w+|0x[0-9a-f]+|__autograph_generated_file\w+")


@pytest.fixture
def watch(monkeypatch):
    """Return a function that installs the watch, until the end of the test."""

    def install():
        monkeypatch.setattr(unguarded, "patch", monkeypatch.setattr)
        seen = SimpleNamespace(
            error=lambda error: None, step_of_a_loop=lambda *_, **__: None, trace=methodcaller("__call__")
        )  # the last without a frame of this file
        for install in (unguarded._watch_errors, unguarded._watch_loops, unguarded._watch_tracing):
            install(seen)

    return install


def failures():
    """Return how TensorFlow and Python tell of some errors in a step."""
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(1, name="last")], name="all")
    optimizer = keras.optimizers.SGD(name="sgd")
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, how):
        gradients = [tf.zeros((7, 7) if how == "applied" else each.shape) for each in model.trainable_variables]
        if how == "computed":
            tf.debugging.assert_greater(tf.reduce_sum(model(x)), 1e9)
        if how == "traced":
            tf.matmul(x, x)
        if how == "raised":
            raise ValueError("its own")
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    def eagerly(x, how):
        optimizer.apply_gradients((tf.zeros((7, 7)), each) for each in model.trainable_variables)

    def outer(x, how):
        step(x, how)

    told = []
    for function in (step, tf.function(outer), eagerly):
        for how in ("computed", "traced", "applied", "raised"):
            with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as raised:
                function(tf.zeros((3, 4)), how)
            told.append(_VARYING.sub("", "".join(traceback.format_exception(raised.value))))
    return told


def test_errors_of_a_custom_loop_look_as_they_do_without_oomph(watch):
    told = []
    for prepare in (lambda: None, watch):
        prepare()
        told.append(failures())  # in the same line, which is in the stacks that TensorFlow keeps
    for plain, watched in zip(*told, strict=True):
        assert watched.splitlines() == plain.splitlines()


def test_guard_leaves_no_frame_of_oomph_in_an_error():
    @guard
    def step(batch):
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own") as raised:
        step(tf.zeros((3, 4)))
    files = [frame.filename for frame in traceback.extract_tb(raised.tb)]
    assert not any("/oomph/" in file for file in files if "/tests/" not in file)


@pytest.fixture
def mirrored():
    """Return a strategy with one replica, and an optimizer that has taken three steps."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        weight = keras.Variable(1.0)
        optimizer = keras.optimizers.SGD()
        optimizer.build([weight])
    optimizer.iterations.assign(3)
    return optimizer


def test_steps_of_an_optimizer_are_counted_under_a_strategy(mirrored):
    """The run would otherwise report steps as repeated that the script has restored from its own checkpoint."""
    assert steps_before([mirrored], applied=True) == 2
