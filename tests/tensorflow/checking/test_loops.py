"""Facts about a custom loop: its loss objects, their arguments, and a difference that broadcasts."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.preflight.live.training_facts import loop_facts
from oomph.resume.loop.loss_calls import listen


@pytest.fixture
def calls(monkeypatch):
    for owner in (keras.Model, keras.losses.Loss):
        monkeypatch.setattr(owner, "__call__", owner.__call__)  # restored afterwards
    return listen(lambda: False)


def model(activation=None):
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation=activation)])


X, Y = np.zeros((8, 3), "float32"), np.zeros((8, 1), "float32")


def facts(made, calls, graph=None):
    return loop_facts(made, {}, "train.py:1", keras.optimizers.SGD(), calls(), graph)


@pytest.mark.parametrize("traces", [False, True])
def test_the_loss_of_the_only_output_is_found(calls, traces):
    made, loss = model(), keras.losses.BinaryCrossentropy()

    def step():
        return loss(Y, made(X, training=True))

    (tf.function(step) if traces else step)()
    (output,) = facts(made, calls).model.outputs
    assert output.loss is not None
    assert (output.loss.kind, output.loss.from_logits, output.activation) == ("binary_crossentropy", False, "linear")
    assert not facts(made, calls).model.swapped_loss


def test_swapped_loss_arguments_are_found(calls):
    made, loss = model("sigmoid"), keras.losses.BinaryCrossentropy()
    loss(made(X), Y)
    found = facts(made, calls).model
    assert found.swapped_loss == "binary_crossentropy"
    assert found.outputs == ()
    assert not facts(model(), calls).model.swapped_loss  # from another model


def test_student_teacher_loss_is_not_reported_as_swapped(calls):
    student, teacher = model("sigmoid"), model("sigmoid")
    keras.losses.KLDivergence()(teacher(X), student(X))
    assert not facts(student, calls).model.swapped_loss
    assert not facts(teacher, calls).model.swapped_loss


def test_output_with_two_losses_is_not_assigned_either_of_them(calls):
    made = model("sigmoid")
    keras.losses.BinaryCrossentropy()(Y, made(X))
    keras.losses.MeanSquaredError()(Y, made(X))
    assert facts(made, calls).model.outputs == ()


def difference(first, second):
    def step(a, b):
        return tf.reduce_mean(tf.square(a - b))

    specs = [tf.TensorSpec(shape) for shape in (first, second)]
    return loop_facts(
        model(), {}, "", keras.optimizers.SGD(), (), tf.function(step).get_concrete_function(*specs).graph
    )


def test_pairwise_differences_in_one_tensor_are_not_a_broadcast():
    step = tf.function(lambda scores: tf.reduce_mean(tf.nn.relu(1 - (scores - tf.expand_dims(scores, 1)))))
    graph = step.get_concrete_function(tf.TensorSpec((20,))).graph
    assert loop_facts(model(), {}, "", keras.optimizers.SGD(), (), graph).trial.broadcasts == ""


@pytest.mark.parametrize(
    ("first", "second", "broadcasts"),
    [
        ((20,), (20, 1), "(20,) - (20, 1)"),
        ((None,), (None, 1), "(n,) - (n, 1)"),
        ((20, 1), (20, 1), ""),
        ((20,), (20,), ""),
        ((64,), (20, 1), ""),  # distances to 64 centres
        ((), (20, 1), ""),
        ((1, 20), (20, 1), ""),  # intended
        ((1,), (1, 1), ""),
    ],
)
def test_a_vector_minus_a_column_is_reported_as_a_broadcast(first, second, broadcasts):
    assert difference(first, second).trial.broadcasts == broadcasts
