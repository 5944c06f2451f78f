"""How much of the data is read, and how much of that is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oomph.preflight.live.data_facts import look_at
from oomph.preflight.live.reading import FULL, USUAL, in_words, read


def batches(number: int, size: int = 4):
    """Yield batches whose labels are their batch numbers."""
    for index in range(number):
        yield np.zeros((size, 3), "float32"), np.full((size,), index)


def test_reading_stops_exactly_at_its_batch_limit():
    source = batches(10)
    found = read(source, replace(USUAL, batches=3))
    assert found.batches == 3
    assert not found.is_whole
    assert next(source)[1][0] == 3


def test_data_that_ends_before_the_limit_is_marked_as_complete():
    assert read(batches(2), USUAL).is_whole


def test_full_read_counts_everything_but_keeps_only_a_sample():
    found = read(batches(50), replace(FULL, size=200))
    assert found.is_whole
    assert found.batches == 50
    kept = sum(array.nbytes for arrays in found.arrays.values() for array in arrays)
    assert kept < 400
    looked = look_at(batches(50), limits=replace(FULL, size=200, epoch=50))
    assert looked.data.of("y")[0].sample is not None


def test_full_read_of_a_dataset_sees_its_last_label():
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices((np.zeros((400, 3), "float32"), np.arange(400) // 100)).batch(10)
    sample = look_at(dataset, limits=replace(FULL, size=1000)).data.of("y")[0].sample
    assert sample is not None
    assert (sample.rows, sample.maximum, sample.is_whole) == (400, 3, True)
    assert sample.classes == {0: 100, 1: 100, 2: 100, 3: 100}
    assert look_at(dataset, limits=replace(USUAL, size=1000)).data.of("y")[0].sample.maximum == 0


def test_full_read_of_arrays_sees_every_row():
    x = np.zeros((5000, 4), "float32")
    x[4321, 2] = np.nan
    part = look_at(x, np.zeros(5000), limits=replace(FULL, size=1000)).data.of("x")[0]
    assert part.sample is not None
    assert (part.sample.nan_rows, part.sample.first_nan, part.sample.rows) == (1, 4321, 5000)


@pytest.mark.parametrize("epoch", [None, 7])
def test_endless_data_is_read_for_one_epoch(epoch):
    import tensorflow as tf

    endless = tf.data.Dataset.from_tensors((np.zeros(3, "float32"), 1)).repeat().batch(2)
    sample = look_at(endless, limits=replace(FULL, epoch=epoch)).data.of("y")[0].sample
    assert sample is not None
    assert sample.rows == 2 * (epoch or USUAL.batches)
    assert not sample.is_whole


def test_batches_read_before_an_error_in_the_data_are_kept():
    def raises():
        yield from batches(2)
        raise OSError("the disk is gone")

    found = read(raises(), FULL)
    assert found.batches == 2
    assert found.failed == "OSError: the disk is gone"
    assert not found.is_whole


@pytest.mark.parametrize(
    ("read_so_far", "whole", "seconds", "words"),
    [
        (340, 2000, 2.5, "reading the data: 340 of 2,000 batches (17%), about 12 s left"),
        (340, None, 2.5, "reading the data: 340 batches"),
        (2001, 2000, 2.5, "reading the data: 2,001 batches"),
        (0, 10, 0.0, "reading the data: 0 of 10 batches (0%), about 0 s left"),
    ],
)
def test_reading_progress_is_described_as_text(read_so_far, whole, seconds, words):
    assert in_words(read_so_far, whole, seconds) == words
