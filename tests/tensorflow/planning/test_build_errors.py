"""A model that cannot be built for a plan: what Keras or the allocator says, in one sentence."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.planning.live import samples, subject

layers = keras.layers


def compiled(*parts: keras.layers.Layer) -> keras.Model:
    model = keras.Sequential(list(parts))
    model.compile("adam", "mse", jit_compile=False)
    return model


def test_wrongly_shaped_data_is_reported_with_both_shapes() -> None:
    model = compiled(keras.Input((28,)), layers.Dense(8), layers.Dense(1))
    batch = samples.first_batch(model, {"x": np.zeros((60, 30)), "y": np.zeros((60, 1)), "batch_size": 16})
    with pytest.raises(ExamineError) as caught:
        subject.build(model, batch)
    said = str(caught.value)
    assert said.startswith("the model cannot be built with this data: ValueError: Input 0")
    assert "28" in said
    assert "(16, 30)" in said
    assert "Exception encountered" not in said
    assert "\n" not in said
    assert "\x1b" not in said


class TooLarge(layers.Layer):
    def build(self, shape) -> None:
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "{{function_node __wrapped__Mul}} OOM when allocating tensor with shape[60000,100000] and type float",
        )

    def call(self, x):
        return x


def test_model_larger_than_the_machines_memory_is_reported() -> None:
    model = compiled(TooLarge(), layers.Dense(1))
    with pytest.raises(ExamineError) as caught:
        subject.build(model, (tf.zeros([4, 3]), tf.zeros([4, 1])))
    assert str(caught.value) == (
        "the model and its optimizer are larger than this machine's free memory: plan on a machine with more memory, "
        "or plan a smaller model (OOM when allocating tensor with shape[60000,100000])"
    )


def test_ragged_data_is_rejected_with_a_remedy() -> None:
    with pytest.raises(ExamineError, match=r"such as ragged.to_tensor\(shape=\(None, LONGEST\)\)"):
        samples.specification((tf.ragged.constant([[1], [2, 3]]), tf.constant([1, 2])))
