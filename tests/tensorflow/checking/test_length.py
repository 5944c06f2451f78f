"""A pipeline that skips failing elements has the same length as one that does not."""

from __future__ import annotations

import pytest
import tensorflow as tf

from oomph.keras_bridge.pipelines.elements import length

NUMBERS = tf.data.Dataset.range(100)
SHAPES = {
    "batch": lambda data: data.batch(7),
    "whole batches": lambda data: data.batch(7, drop_remainder=True),
    "padded": lambda data: data.padded_batch(7),
    "take and skip": lambda data: data.skip(3).take(20),
    "shuffled and repeated": lambda data: data.shuffle(9).repeat(3).batch(8).prefetch(1),
    "endless": lambda data: data.repeat().batch(8),
    "cached": lambda data: data.cache().map(lambda x: x + 1).enumerate(),
    "zipped": lambda data: tf.data.Dataset.zip((data, NUMBERS.take(30))).batch(4),
    "both zipped": lambda data: tf.data.Dataset.zip((data.repeat(), data.take(11))).shuffle(5),
    "behind another": lambda data: data.concatenate(data.take(5)).batch(10),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_dataset_length_is_known_despite_ignore_errors(shape):
    ignoring = NUMBERS.ignore_errors()
    plain, guarded = shape(NUMBERS), shape(ignoring)
    assert int(guarded.cardinality()) in (tf.data.UNKNOWN_CARDINALITY, tf.data.INFINITE_CARDINALITY)
    assert length(guarded, {ignoring}) == int(plain.cardinality())


def test_length_unknown_to_tensorflow_stays_unknown():
    ignoring = NUMBERS.ignore_errors()
    for data in (ignoring.filter(lambda x: x > 3), ignoring.interleave(lambda x: tf.data.Dataset.range(x)).batch(2)):
        assert length(data, {ignoring}) == tf.data.UNKNOWN_CARDINALITY
