"""Problems in training are reported while there is still time to stop it, and again at the end."""

from __future__ import annotations

import pytest

SCRIPT = """
import keras
import numpy as np

class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return np.ones((8, 4), "float32"), np.ones((8, 1), "float32")

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Rows(), epochs=4, steps_per_epoch=2, verbose=0)
print("trained")

class Kept(keras.layers.Layer):
    def call(self, inputs):
        return inputs

    def get_config(self):
        raise NotImplementedError("of a table of my own")

other = keras.Sequential([keras.Input((4,)), Kept(), keras.layers.Dense(1)])
other.compile("sgd", "mse")
other.fit(*Rows()[0], epochs=2, verbose=0, callbacks=[keras.callbacks.ModelCheckpoint("best.keras", save_freq=1000)])
"""


@pytest.fixture(scope="module")
def ended(shared):
    ended = shared.oomph(shared.write(SCRIPT))
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def test_unsavable_model_is_reported_after_its_first_step(ended):
    (told,) = (line for line in ended.said if "best.keras" in line)
    assert "ModelCheckpoint: best.keras cannot be written" in told
    assert "NotImplementedError: of a table of my own (checkpoint-failure, CKP401). Give Kept a get_config" in told
    assert not (ended.folder.parent / "best.keras").exists()


def test_exhausted_data_is_reported_immediately_and_at_the_end(ended):
    (told,) = (line for line in ended.said if "ran out in" in line)
    assert "training data: the data ran out in epoch 3, which had 1 of its 2 steps (input-pipeline, DAT606)" in told
    assert "finished, 9 steps (1 fewer than asked for: the data ran out)" in ended.said[-2]
    assert "found in the run: input-pipeline (training data), checkpoint-failure (ModelCheckpoint)" in ended.said[-1]
    assert [event.data["wanted"] for event in ended.events("data-ended")] == [2]
