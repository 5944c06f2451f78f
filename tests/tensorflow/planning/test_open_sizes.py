"""Sizes left open by model and data are reported, and are doubtful if other batches may differ in them."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.planning.live.subject import open_sizes

layers = keras.layers


class Own(keras.Model):
    def call(self, x):
        return x


def sequence(length: int | None) -> keras.Model:
    return keras.Sequential([keras.Input((length, 3)), layers.GRU(2)])


def dataset(length: int | None) -> tf.data.Dataset:
    signature = (tf.TensorSpec((None, length, 3)), tf.TensorSpec((None,)))
    return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature)


UNKNOWN = tf.data.Dataset.from_generator(lambda: iter(()), output_types=(tf.float32, tf.float32))
BATCH = (tf.zeros([4, 58, 3]), tf.zeros([4]))


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (sequence(None), dataset(None)), (Own(), dataset(None)), (sequence(None), UNKNOWN),
        (sequence(None), (each for each in ())),
    ],
)  # fmt: skip
def test_sizes_that_may_differ_between_batches_make_a_plan_doubtful(model, data) -> None:
    found = open_sizes(model, data, BATCH)
    assert "samples of shape (58, 3), as in the first batch" in found.doubt
    assert "give all batches the same length" in found.doubt
    assert not found.note


@pytest.mark.parametrize("data", [np.zeros((9, 58, 3)), tf.zeros([9, 58, 3]), [np.zeros((9, 58, 3))], dataset(58)])
def test_size_left_open_only_by_the_model_is_mentioned_in_a_note(data) -> None:
    found = open_sizes(sequence(None), data, BATCH)
    assert not found.doubt
    assert "shape (58, 3), as in the data" in found.note


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (sequence(58), dataset(None)), (sequence(58), UNKNOWN), (sequence(58), np.zeros((9, 58, 3))),
        (Own(), UNKNOWN), (Own(), np.zeros((9, 58, 3))), (Own(), dataset(58)), (Own(), (each for each in ())),
    ],
)  # fmt: skip
def test_a_size_fixed_by_model_or_data_is_not_mentioned(model, data) -> None:
    found = open_sizes(model, data, BATCH)
    assert (found.doubt, found.note) == ("", "")


def test_a_note_on_open_sizes_gives_the_shape_of_every_input() -> None:
    inputs = {"a": keras.Input((None,), name="a"), "b": keras.Input((2,), name="b")}
    model = keras.Model(inputs, layers.Dense(1)(inputs["b"]))
    batch = ({"a": tf.zeros([4, 7]), "b": tf.zeros([4, 2])}, tf.zeros([4]))
    found = open_sizes(model, {"a": np.zeros((9, 7)), "b": np.zeros((9, 2))}, batch)
    assert "(7,) and (2,)" in found.note
