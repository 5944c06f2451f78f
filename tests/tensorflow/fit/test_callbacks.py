"""Keras' own callbacks continue from where they were; the user's are left alone."""

from __future__ import annotations

import json
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.resume.fit import callbacks
from oomph.resume.state import training_state
from oomph.script.opened_files import FileState


@pytest.fixture
def told():
    return []


@pytest.fixture
def saved(tmp_path, told):
    """Return a list of callbacks after a checkpoint, in the form that `restore` expects."""

    def save(listed):
        store = CheckpointStore(tmp_path / "checkpoints")
        store.open()
        states, arrays = callbacks.captured(listed, told.append)
        store.draft_step(Position(0)).complete(Meta(), lambda writer: training_state.write(writer, arrays))
        return json.loads(json.dumps(states)), store.latest_step(), told.append

    return save


@pytest.mark.parametrize("form", [None, [], (), "one", "list"])
def test_callbacks_are_found_in_every_form_keras_accepts(form):
    one = keras.callbacks.History()
    given = {"one": one, "list": keras.callbacks.CallbackList([one])}.get(str(form), form)
    found = callbacks.listed(given)
    assert (one in found) is (form in ("one", "list"))


def test_early_stopping_resumes_with_its_wait_count_and_best_weights(saved):
    old = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    old.wait, old.best, old.best_epoch = 2, np.float32(0.5), 7
    old.best_weights = [np.arange(6, dtype="float32").reshape(2, 3), np.float32(3)]
    new = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    callbacks.restore([new], *saved([old]))
    assert (new.wait, new.best, new.best_epoch) == (2, 0.5, 7)
    np.testing.assert_array_equal(new.best_weights[0], old.best_weights[0])
    assert float(new.best_weights[1]) == 3


def test_more_than_ten_best_weights_are_restored_in_order(saved):
    """Their names are numbers, and 10 sorts before 2 as text."""
    old = keras.callbacks.EarlyStopping(restore_best_weights=True)
    old.best_weights = [np.float32(number) for number in range(23)]
    new = keras.callbacks.EarlyStopping(restore_best_weights=True)
    callbacks.restore([new], *saved([old]))
    assert [float(weight) for weight in new.best_weights] == list(range(23))


def test_reduce_lr_on_plateau_resumes_with_its_wait_count_and_cooldown(saved):
    old = keras.callbacks.ReduceLROnPlateau(patience=3, cooldown=5)
    old.wait, old.best, old.cooldown_counter = 2, 0.25, 4
    new = keras.callbacks.ReduceLROnPlateau(patience=3, cooldown=5)
    callbacks.restore([new], *saved([old]))
    assert (new.wait, new.best, new.cooldown_counter) == (2, 0.25, 4)


def test_custom_callbacks_are_left_alone(saved):
    class Mine(keras.callbacks.Callback):
        count = 0

    old, new = Mine(), Mine()
    old.count, old.best_weights = 5, [np.zeros(2)]
    callbacks.restore([new], *saved([old]))
    assert (new.count, hasattr(new, "best_weights")) == (0, False)


def test_each_callbacks_state_is_restored_after_the_list_is_edited(saved):
    def made(*waits):
        found = [keras.callbacks.EarlyStopping() for _ in waits]
        for callback, wait in zip(found, waits, strict=True):
            callback.wait = wait
        return found

    first, second, third = made(0, 0, 0)
    plateau = keras.callbacks.ReduceLROnPlateau()
    callbacks.restore([keras.callbacks.TerminateOnNaN(), first, plateau, second, third], *saved(made(4, 5)))
    assert (first.wait, second.wait, third.wait) == (4, 5, 0)


class Counting(keras.callbacks.Callback):
    """Declares its own state."""

    def __init__(self, seen=None):
        super().__init__()
        self.seen = seen

    def get_state(self):
        return self.seen

    def set_state(self, state):
        self.seen = state


SEEN = {"best": 0.25, ("a", 1): [1, None, True, "x"], "far": float("inf"), "weights": np.arange(6.0).reshape(2, 3)}


def test_a_callback_with_get_state_and_set_state_is_resumed(saved, told):
    new = Counting()
    callbacks.restore([new], *saved([Counting(SEEN)]))
    np.testing.assert_array_equal(new.seen.pop("weights"), SEEN["weights"])
    assert new.seen == {key: value for key, value in SEEN.items() if key != "weights"}
    assert told == []


def test_the_saved_state_of_a_callback_is_a_copy(saved):
    weights = np.zeros(3)
    left = saved([Counting([weights])])
    weights += 1
    new = Counting()
    callbacks.restore([new], *left)
    np.testing.assert_array_equal(new.seen[0], np.zeros(3))


@pytest.mark.parametrize("kept", [object(), {"file": open}, np.array([object()]), np.zeros(1, [("a", "i4")])])
def test_a_state_that_needs_unpickling_is_rejected_with_a_reason(saved, told, kept):
    new = Counting("as it began")
    callbacks.restore([new], *saved([Counting(kept)]))
    assert new.seen == "as it began"
    assert len(told) == 1
    assert "callback Counting: its state cannot be saved" in str(told[0])


def test_a_failing_set_state_is_reported_and_training_continues(saved, told):
    class Fragile(Counting):
        def set_state(self, state):
            raise KeyError("wait")

    callbacks.restore([Fragile()], *saved([Fragile(1)]))
    assert [*map(str, told)] == ["callback Fragile: set_state failed (KeyError: 'wait')"]


def test_state_inherited_from_keras_is_restored(saved):
    class Mine(keras.callbacks.EarlyStopping):
        pass

    old, new = Mine(restore_best_weights=True), Mine(restore_best_weights=True)
    old.wait, old.best_weights = 3, [np.ones(2)]
    callbacks.restore([new], *saved([old]))
    assert new.wait == 3
    np.testing.assert_array_equal(new.best_weights[0], np.ones(2))


def test_a_restored_history_keeps_every_value_and_its_type(tmp_path):
    old, new = keras.callbacks.History(), keras.callbacks.History()
    image = np.random.default_rng(0).normal(size=(64, 64, 3))
    old.epoch = [0, 1]
    old.history = {"loss": [np.float32(0.5), float("nan")], 7: [image, image[0]], "lr": tf.constant([1.0]), "o": [{1}]}
    checkpoint, document, lost = history_in_a_checkpoint(tmp_path, old)
    assert [*map(str, lost)] == ["o in the History (set is not a number, text, list, tuple, dict or array)"]
    assert len(document) < 1000
    callbacks.restore_history(new, checkpoint)
    assert (new.epoch, list(new.history)) == ([0, 1], ["loss", 7, "lr"])
    assert type(new.history["loss"][0]) is np.float32
    assert (new.history["loss"][0], repr(new.history["loss"][1])) == (0.5, "nan")
    assert [each.tobytes() for each in new.history[7]] == [image.tobytes(), image[0].tobytes()]
    assert isinstance(new.history["lr"], tf.Tensor)


def history_in_a_checkpoint(tmp_path, history):
    """Return the checkpoint, its JSON, and what it could not store."""
    store = CheckpointStore(tmp_path / "checkpoints")
    store.open()
    meta, arrays, lost = callbacks.history_state(history)
    store.draft_step(Position(0)).complete(Meta(history=meta), lambda writer: training_state.write(writer, arrays))
    checkpoint = store.latest_step()
    return checkpoint, json.dumps(checkpoint.meta.history), lost


def test_resumed_csv_logger_appends_without_a_second_header(tmp_path, saved):
    def logger(path="log.csv"):
        made = keras.callbacks.CSVLogger(str(tmp_path / path))
        made.set_model(keras.Sequential())
        return made

    old = logger()
    old.on_train_begin()
    old.on_epoch_end(0, {"loss": 1.0})
    left = saved([old])
    old.csv_file.close()
    new = logger()
    callbacks.continue_logs([new], 99, {})
    new.on_train_begin()
    callbacks.restore([new], *left)
    new.on_epoch_end(1, {"loss": 0.5})
    new.on_train_end()
    header, *rows = (tmp_path / "log.csv").read_text().splitlines()
    assert header.startswith("epoch,loss")
    assert [row[:5] for row in rows] == ["0,1.0", "1,0.5"]


def test_csv_lines_for_epochs_that_will_be_repeated_are_dropped(tmp_path):
    log = tmp_path / "log.csv"
    log.write_bytes(b"epoch,loss\r\n0,1.0\r\n1,0.5\r\n2,0.4\r\n")
    callbacks.continue_logs([keras.callbacks.CSVLogger(str(log))], 1, {})
    assert log.read_bytes() == b"epoch,loss\r\n0,1.0\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_csv_lines_from_another_run_are_kept(tmp_path):
    """Whatever a checkpoint says about its epoch and the file's contents."""
    log = tmp_path / "log.csv"
    before = b"epoch,loss\n0,9\n1,8\n2,7\n"
    planted = FileState(str(log), (1, 1), b"", (1, 2), time.time_ns())
    for epoch, kept in ((0, b""), (1, b"0,6\n"), (2, b"0,6\n1,5\n")):
        log.write_bytes(before + b"0,6\n1,5\n2,4\n")
        callbacks.continue_logs([keras.callbacks.CSVLogger(str(log))], epoch, {str(log): planted})
        assert log.read_bytes() == before + kept


def test_custom_csv_logger_is_left_alone():
    class CSVLogger:
        append = False

    theirs = CSVLogger()
    callbacks.continue_logs([theirs], 99, {})
    assert theirs.append is False
