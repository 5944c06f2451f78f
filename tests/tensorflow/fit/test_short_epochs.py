"""Epochs in which the data ran out, and what `oomph check` predicts: the same number of steps as Keras runs."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.preflight.facts.data import ARRAYS, DATASET, GENERATOR, PY_DATASET, Data
from oomph.preflight.rules.epochs import _steps_of_epochs
from oomph.resume.fit.running import ShortEpoch, ShortEpochs

ROWS = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")
BATCHES = 10


class Counted(keras.callbacks.Callback):
    """Counts the steps in each epoch."""

    def on_train_begin(self, logs=None):
        self.steps = []

    def on_epoch_begin(self, epoch, logs=None):
        self.steps.append(0)

    def on_train_batch_end(self, batch, logs=None):
        self.steps[-1] += 1


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        return ROWS


def generator():
    for _ in range(BATCHES):
        yield ROWS


def known():
    return tf.data.Dataset.from_tensors(ROWS).repeat(BATCHES)


def unknown():
    return known().filter(lambda x, y: True)


KINDS = {
    PY_DATASET: (Rows, Data(PY_DATASET, has_length=True)),
    "known": (known, Data(DATASET, has_length=True)),
    "unknown": (unknown, Data(DATASET)),
    GENERATOR: (generator, Data(GENERATOR)),
    ARRAYS: (lambda: np.ones((8 * BATCHES, 4), "float32"), Data(ARRAYS, has_length=True)),
}


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_epoch", [4, 5, 10])
def test_check_predicts_the_steps_that_keras_takes(small_model, kind, per_epoch):
    make, data = KINDS[kind]
    counted, model = Counted(), small_model()
    model.run_eagerly = True
    rest = {"y": np.ones((8 * BATCHES, 2), "float32"), "batch_size": 8} if kind == ARRAYS else {}
    model.fit(make(), **rest, epochs=6, steps_per_epoch=per_epoch, verbose=0, callbacks=[counted], shuffle=False)
    assert _steps_of_epochs(BATCHES, per_epoch, 6, data) == counted.steps


def test_epoch_with_fewer_steps_than_requested_is_short():
    short = ShortEpochs()
    assert [short.end(epoch, steps, 8) for epoch, steps in enumerate((8, 8))] == [None, None]
    assert short.end(2, 4, 8) == ShortEpoch(2, 4, 8)
    assert short.finding().message == "the data ran out in epoch 3, which had 4 of its 8 steps"
    assert short.end(3, 0, 8)
    words = "the data ran out in 2 epochs, the last of them epoch 4: 12 steps were not trained"
    assert short.finding().message == words


def test_only_exhausted_data_makes_an_epoch_short():
    data = ShortEpochs()
    assert [data.end(epoch, steps, None) for epoch, steps in enumerate((20, 18, 19))] == [None] * 3
    assert data.end(3, 0, None) == ShortEpoch(3, 0, 20)
    generator = ShortEpochs()
    assert generator.end(0, 20, None, is_one_pass=True) is None
    assert generator.end(1, 2, None, is_one_pass=True) == ShortEpoch(1, 2, 20)
