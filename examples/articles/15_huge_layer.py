"""Tries layers until one fits, and returns None for one that does not. The model is thrown away each time."""

import keras
import tensorflow as tf


def layer_of(units):
    """Return a layer of this size, or None if it does not fit."""
    try:
        layer = keras.layers.Dense(units)
        layer.build((None, 4_096))
        return layer
    except tf.errors.ResourceExhaustedError:
        return None


for units in (20_000, 1_000):
    print(units, "fits" if layer_of(units) else "does not fit")
