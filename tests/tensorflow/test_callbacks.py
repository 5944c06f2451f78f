"""Keras' own callbacks go on where they were; the user's are left alone."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from oomph.recovery.store import CheckpointStore, Position
from oomph.tensorflow import callbacks


@pytest.fixture
def saved(tmp_path):
    """What a list of callbacks looks like after a checkpoint, as `restore` takes it."""

    def save(listed):
        store = CheckpointStore(tmp_path / "checkpoints")
        store.open()
        store.save_step(Position(0), {}, lambda writer: callbacks.write_arrays(writer, listed))
        return json.loads(json.dumps(callbacks.states(listed))), store.latest_step()

    return save


@pytest.mark.parametrize("form", [None, [], (), "one", "list"])
def test_callbacks_are_found_in_every_form_that_keras_takes(form):
    one = keras.callbacks.History()
    given = {"one": one, "list": keras.callbacks.CallbackList([one])}.get(str(form), form)
    found = callbacks.listed(given)
    assert (one in found) is (form in ("one", "list"))


def test_early_stopping_keeps_its_patience_and_its_best_weights(saved):
    old = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    old.wait, old.best, old.best_epoch = 2, np.float32(0.5), 7
    old.best_weights = [np.arange(6, dtype="float32").reshape(2, 3), np.float32(3)]
    new = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    callbacks.restore([new], *saved([old]))
    assert (new.wait, new.best, new.best_epoch) == (2, 0.5, 7)
    np.testing.assert_array_equal(new.best_weights[0], old.best_weights[0])
    assert float(new.best_weights[1]) == 3


def test_the_users_own_callbacks_are_left_alone(saved):
    class Mine(keras.callbacks.Callback):
        count = 0

    old, new = Mine(), Mine()
    old.count, old.best_weights = 5, [np.zeros(2)]
    callbacks.restore([new], *saved([old]))
    assert (new.count, hasattr(new, "best_weights")) == (0, False)


def test_another_list_of_callbacks_is_left_alone(saved):
    old, new = keras.callbacks.EarlyStopping(), keras.callbacks.EarlyStopping()
    old.wait = 4
    callbacks.restore([keras.callbacks.TerminateOnNaN(), new], *saved([old]))
    assert new.wait == 0


def test_a_history_goes_on():
    old, new = keras.callbacks.History(), keras.callbacks.History()
    old.epoch, old.history = [0, 1], {"loss": [np.float32(0.5), 0.25], "lr": [np.asarray(1.0)[()], 2]}
    callbacks.restore_history(new, json.loads(json.dumps(callbacks.history_state(old))))
    assert (new.epoch, new.history) == ([0, 1], {"loss": [0.5, 0.25], "lr": [1.0, 2]})


def test_a_resumed_csv_logger_appends_and_writes_no_second_header(tmp_path, saved):
    def logger(path="log.csv"):
        made = keras.callbacks.CSVLogger(str(tmp_path / path))
        made.set_model(keras.Sequential())
        return made

    old = logger()
    old.on_train_begin()
    old.on_epoch_end(0, {"loss": 1.0})
    state = saved([old])
    old.csv_file.close()
    new = logger()
    callbacks.continue_logs([new], 99)
    new.on_train_begin()
    callbacks.restore([new], *state)
    new.on_epoch_end(1, {"loss": 0.5})
    new.on_train_end()
    header, *rows = (tmp_path / "log.csv").read_text().splitlines()
    assert header.startswith("epoch,loss")
    assert [row[:5] for row in rows] == ["0,1.0", "1,0.5"]


def test_lines_of_epochs_that_come_again_are_dropped_from_the_log(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("epoch,loss\n0,1.0\n1,0.5\n2,0.4\n")
    callbacks.continue_logs([keras.callbacks.CSVLogger(str(log))], 1)
    assert log.read_text() == "epoch,loss\n0,1.0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_a_users_csv_logger_is_not_touched():
    class CSVLogger:
        append = False

    theirs = CSVLogger()
    callbacks.continue_logs([theirs], 99)
    assert theirs.append is False
