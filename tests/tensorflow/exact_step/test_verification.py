"""Steps run both in plain Keras and under the guard: differences are judged relative to the step's changes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.step.verification import OUT_OF_MEMORY, Verification
from oomph.keras_bridge.graph import Slot
from oomph.resume.fit.reporting import verified_in_words


@pytest.fixture
def made(small_model):
    return small_model()


def verified(model, theirs, ours, steps=1, logs=(0.5, 0.5)):
    """Return what is found if plain Keras sets the first weight to one value, and the guard to another."""
    weight = model.trainable_variables[0]

    def plain(iterator):
        next(iterator)
        if isinstance(theirs, Exception):
            raise theirs
        weight.assign(tf.broadcast_to(theirs, weight.shape))
        return {"loss": tf.constant(logs[0])}

    def guarded():
        weight.assign(tf.broadcast_to(ours, weight.shape))
        return {"loss": tf.constant(logs[1])}

    verification = Verification(steps, plain, model)
    while verification.pending:
        weight.assign(tf.ones(weight.shape))
        verification.step(None, Slot.each_of([weight]), guarded)
        assert float(weight[0, 0]) == pytest.approx(float(ours), nan_ok=True)
    return verification.result


def test_equal_values_are_reported_without_a_difference(made):
    found = verified(made, 1.5, 1.5, steps=2)
    assert (found.steps, found.weights, found.logs, found.of_change, found.variable) == (2, 0, 0, 0, "")
    assert verified_in_words(found) == "2 steps compared with plain Keras: no difference in any variable or metric"


@pytest.mark.parametrize("step", [1.0, 1e-3])
def test_a_difference_is_measured_relative_to_the_steps_change(made, step):
    """The same difference is rounding next to a large update, but not next to a small one."""
    found = verified(made, np.float32(1 + step), np.float32(1 + step + 1e-5))
    assert found.weights == pytest.approx(1e-5, rel=0.05)
    assert found.of_change == pytest.approx(1e-5 / max(step, 1e-3 * (1 + step)), rel=0.05)
    assert found.variable == made.trainable_variables[0].path
    words = verified_in_words(found)
    assert ("only rounding" in words, "more than rounding" in words) == (step == 1.0, step != 1.0)
    assert made.trainable_variables[0].path in words
    assert "rounding in float32 accounts for up to 0.0001" in words


@pytest.mark.parametrize(("theirs", "ours"), [(1.5, np.nan), (np.nan, 1.5), (1.5, np.inf), (-np.inf, np.inf)])
def test_value_that_is_finite_in_only_one_result_is_a_difference(made, theirs, ours):
    found = verified(made, np.float32(theirs), np.float32(ours), steps=2)
    assert found.weights == found.of_change == float("inf")
    assert "more than rounding" in verified_in_words(found)


def test_nan_on_both_sides_is_not_a_difference(made):
    assert verified(made, np.float32(np.nan), np.float32(np.nan)).weights == 0


@pytest.mark.parametrize(
    ("logs", "share", "verdict"),
    [
        ((np.nan, 0.5), float("inf"), "more than rounding"),
        ((0.5, 0.6), 0.2, "more than rounding"),
        ((1e6, 1e6 + 1), 1e-6, "only rounding"),
    ],
)
def test_a_differing_metric_affects_the_verdict_like_a_differing_variable(made, logs, share, verdict):
    found = verified(made, 1.5, 1.5, logs=logs)
    assert (found.weights, found.of_log) == (0, pytest.approx(share, rel=0.01))
    assert f"compared with plain Keras: {verdict}. " in verified_in_words(found)


def test_differences_in_bfloat16_are_measured():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, dtype="bfloat16")])
    model.compile("sgd", "mse")
    found = verified(model, tf.constant(1.5, tf.bfloat16), tf.constant(1.5078125, tf.bfloat16))
    assert (found.weights, found.of_change) == (0.0078125, 0.015625)
    assert (found.type, found.only_rounding) == ("bfloat16", True)


def test_text_and_booleans_returned_by_a_step_are_compared(made):
    assert verified(made, 1.5, 1.5, logs=("a", "a")).same
    assert verified(made, 1.5, 1.5, logs=("a", "b")).of_log == 1
    assert verified(made, 1.5, 1.5, logs=(True, False)).of_log == 1


def test_a_step_that_fails_in_plain_keras_is_not_reported_as_compared(made):
    found = verified(
        made,
        tf.errors.ResourceExhaustedError(
            None, None, "OOM when allocating tensor with shape[9] and type float on CPU:0 by allocator cpu"
        ),
        1.5,
        steps=3,
    )
    assert (found.steps, found.stopped) == (0, OUT_OF_MEMORY)
    assert verified_in_words(found) == f"no step was compared with plain Keras; {OUT_OF_MEMORY}"


def test_rounding_tolerance_depends_on_the_coarsest_layer_type(small_model):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1, dtype="mixed_float16")])
    model.compile("sgd", "mse")
    assert (verified(model, 1.5, 1.5).type, verified(model, 1.5, 1.5).rounding) == ("float16", 0.05)
