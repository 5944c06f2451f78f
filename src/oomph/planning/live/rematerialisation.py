"""Tests Keras' own recomputation of activations inside a compiled step, on two small layers.

Keras 3.15 calls `tf.recompute_grad` with keyword arguments, which TensorFlow takes in eager execution only.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def why_remat_fails() -> str:
    """The error in a few words; empty if it works."""
    import keras

    if not hasattr(keras, "RematScope"):
        return f"Keras {keras.__version__} has none"
    try:
        with keras.RematScope(mode="full"):
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)])
        tf.function(lambda x: _gradients(model, x)).get_concrete_function(tf.TensorSpec([2, 2]))
    except Exception as error:  # whatever it is: the scope cannot be used
        return f"{type(error).__name__} with Keras {keras.__version__}"
    return ""


def _gradients(model: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x, training=True))
    return tape.gradient(loss, [variable.value for variable in model.trainable_variables])
