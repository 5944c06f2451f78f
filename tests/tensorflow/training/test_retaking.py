"""Batches that are read again: as many as before, compared with the earlier ones, in bounded time."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge import fingerprints
from oomph.resume.training import retaking
from oomph.resume.training.retaking import Expected, TookTooLongError, Watched


def quiet(seconds=60.0):
    return Watched(lambda text: None, seconds)


def data():
    return tf.data.Dataset.range(20).batch(4)


def known(dataset):
    return [fingerprints.as_number(fingerprints.of_tensors([batch])) for batch in dataset]


def test_skipping_batches_stops_at_the_end_of_the_data():
    iterator = iter(data())
    assert retaking.skip(iterator, 3, quiet(), Expected()) == 3
    np.testing.assert_array_equal(next(iterator), [12, 13, 14, 15])
    assert retaking.skip(iterator, 3, quiet(), Expected()) == 1, "the data have ended before"
    assert retaking.skip(iter([]), 3, quiet(), Expected()) == 0


def test_skipped_batches_are_compared_with_the_recorded_ones():
    expected = Expected(5, known(data()))
    assert retaking.skip(iter(data()), 5, quiet(), expected) == 5
    assert (expected.compared, expected.differs_at) == (5, None)


def test_the_first_differing_batch_is_reported():
    expected = Expected(5, known(data()))
    retaking.skip(iter(data().map(lambda x: tf.where(x == 9, -x, x))), 5, quiet(), expected)
    assert (expected.compared, expected.differs_at) == (2, 2)


def test_only_the_recorded_last_batches_are_compared():
    expected = Expected(5, known(data())[3:])
    retaking.skip(iter(data()), 5, quiet(), expected)
    assert (expected.compared, expected.differs_at) == (2, None)
    other = Expected(5, known(data())[2:4])
    retaking.skip(iter(data()), 5, quiet(), other)
    assert other.differs_at == 3


def test_an_unrecorded_batch_is_not_compared():
    expected = Expected(5, [0] * 5)
    retaking.skip(iter(data()), 5, quiet(), expected)
    assert (expected.compared, expected.differs_at) == (0, None)


def test_replaying_batches_stops_after_a_time_limit():
    def slow():
        while True:
            time.sleep(0.01)
            yield 1

    with pytest.raises(TookTooLongError):
        retaking.skip(slow(), 10**6, quiet(0.05), Expected())


def test_replay_progress_is_reported_periodically(monkeypatch):
    monkeypatch.setattr(retaking, "_TELL_SECONDS", 0.0)
    told = []
    retaking.skip(iter(data()), 2, Watched(told.append), Expected())
    assert told == [
        "replaying the epoch's batches: 1 of 2, 0 s",
        "replaying the epoch's batches: 2 of 2, 0 s",
    ]


class Epochs:
    """Stands in for Keras' epoch iterator, as far as it matters here."""

    def __init__(self, dataset):
        self._distributed_dataset = dataset


def order_of_epoch(number, dataset, pass_over):
    tf.random.set_seed(1)
    made = dataset()
    if pass_over:
        retaking.pass_over(Epochs(made), range(1, number), range(1, number), quiet())
    else:
        for _ in range(1, number):
            list(made)
    return [np.asarray(batch).tolist() for batch in made]


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: tf.data.Dataset.range(20).shuffle(20).batch(4),
        lambda: tf.data.Dataset.range(20).shuffle(20).batch(4).shuffle(5),
        lambda: tf.data.Dataset.range(20).shuffle(20).repeat(2).batch(4),
        lambda: tf.data.Dataset.range(20).shuffle(20).cache().batch(4),
        data,
    ],
)
def test_skipping_finished_epochs_keeps_the_order_of_the_next_epoch(dataset):
    expected = order_of_epoch(4, dataset, pass_over=False)
    assert order_of_epoch(4, dataset, pass_over=True) == expected


def test_unused_iterators_are_not_replayed():
    taken = []

    def note(x):
        taken.append(int(x))
        return x

    def make():
        dataset = tf.data.Dataset.range(3).shuffle(3).map(lambda x: tf.py_function(note, [x], tf.int64)).repeat(1)
        return dataset.shuffle(2)

    retaking.pass_over(Epochs(make()), range(1, 4), [2], quiet())
    assert len(taken) == 3


def test_existing_iterator_is_reused_as_the_first_one():
    made = data()
    first = iter(made)
    retaking.pass_over(Epochs(made), range(1, 2), [1], quiet(), first)
    assert next(first).numpy().tolist() == [0, 1, 2, 3]


class Pieces(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return np.zeros((1, 1))

    def on_epoch_begin(self):
        self.calls.append("begin")

    def on_epoch_end(self):
        self.calls.append("end")


def test_epoch_callbacks_of_a_pydataset_are_called_for_skipped_epochs():
    class Adapter:
        py_dataset = Pieces()

    class Epochs:
        data_adapter = Adapter

    retaking.pass_epochs(Epochs, 2)
    assert Adapter.py_dataset.calls == ["begin", "end"] * 2
    del Adapter.py_dataset
    retaking.pass_epochs(Epochs, 2)
