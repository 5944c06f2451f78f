"""The Python objects around a fit: changes between its start and a checkpoint are restored."""

from __future__ import annotations

import gc
import json
import pathlib
import time
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.objects.picture import Changes
from oomph.redaction import redaction
from oomph.resume.training import fit_objects
from oomph.resume.training.fit_objects import FitObjects, as_saved, from_meta


class Counts(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.n, self.losses, self.rng, self.table = 0, [], np.random.default_rng(1), np.zeros((200, 100))

    def count(self):
        self.n += 1
        self.losses.append(self.rng.random())
        self.table[self.n] = self.n


class Layer(keras.layers.Dense):
    def __init__(self, units):
        super().__init__(units)
        self.calls = 0
        self.seen = []


class Model(keras.Sequential):
    steps = 0


def fit(make_model, **arguments):
    """Return the model, callback, and objects of a fit that is about to start."""
    model, callback = make_model(), Counts()
    arguments = {"x": np.zeros((4, 4)), "y": np.zeros((4, 2)), **arguments}
    return model, callback, FitObjects(model, arguments, [callback])


def through(changes):
    """Return the changes as restored from a checkpoint."""
    meta, saved = as_saved(changes, "object/")
    document = json.loads(json.dumps(meta, allow_nan=False))
    arrays = {array.name.removeprefix("object/"): array.value.copy() for array in saved}
    assert all(array.dtype == np.uint8 for array in arrays.values())
    return from_meta(document, arrays)


@pytest.fixture
def make(small_model):
    return lambda: small_model(Layer(3))


class Sends(Counts):
    def __init__(self, key):
        super().__init__()
        self.api_key, self.path, self.sent, self.by_key = key, pathlib.PurePath("/a", key), {"auth": (key, 1)}, {key: 0}
        self.words = np.array(["word"] * 999 + [key])

    def count(self):
        super().count()
        self.sent["count"] = self.by_key[self.api_key] = self.n


def test_known_keys_are_neither_saved_nor_overwritten(make, monkeypatch):
    key, other = "Kq93jfPz81LmW0aa", "Kq93jfNEW1LmW0bb"
    monkeypatch.setattr(redaction, "_known", {key, other})
    callback = Sends(key)
    objects = FitObjects(make(), {"x": np.zeros((4, 4))}, [callback])
    objects.begin(to_be_resumed=False)
    callback.count()
    changes = objects.changed()
    assert changes.lost == []
    meta, saved = as_saved(changes, "object/")
    assert key not in json.dumps(meta)
    assert not any(key.encode() in array.value.tobytes() for array in saved)

    again = Sends(other)
    objects_again = FitObjects(make(), {"x": np.zeros((4, 4))}, [again])
    objects_again.begin(to_be_resumed=True)
    lost = objects_again.restore(through(changes))
    assert (again.n, again.api_key, again.path.name) == (1, other, other)
    assert again.sent == {"auth": (other, 1), "count": 1}
    assert len(lost) == 1  # dicts with secret keys cannot be told apart
    assert "by_key" in str(lost[0])

    callback.words[0] = "other"
    assert [*map(str, objects.changed().lost)] == ["callback Sends.words (a key or password)"]
    assert not any(key.encode("utf-32-le") in array.value.tobytes() for array in as_saved(objects.changed(), "")[1])
    callback.words = np.array([key] * 1000)  # another one
    assert [*map(str, objects.changed().lost)] == ["callback Sends.words (2) (a key or password)"]
    assert not any(key.encode("utf-32-le") in array.value.tobytes() for array in as_saved(objects.changed(), "")[1])
    callback.words[:] = "word"
    callback.api_key = other
    (lost_now,) = objects.changed().lost
    assert str(lost_now).endswith("(a key or password)")


def test_callback_and_layer_state_is_restored(make):
    model, callback, objects = fit(make)
    objects.begin(to_be_resumed=False)
    for _ in range(3):
        callback.count()
    model.layers[0].calls, model.mine = 7, [1]
    model.layers[0].seen.append("x")
    changes = through(objects.changed())
    again, callback_again, objects_again = fit(make)
    objects_again.begin(to_be_resumed=True)
    assert objects_again.restore(changes) == []
    assert vars(callback_again)["n"] == 3
    assert callback_again.losses == callback.losses
    assert callback_again.rng.random() == callback.rng.random()
    np.testing.assert_array_equal(callback_again.table, callback.table)
    assert (again.layers[0].calls, list(again.layers[0].seen), list(again.mine)) == (7, ["x"], [1])


def test_fit_that_has_just_started_shows_no_changes(make):
    model, _, objects = fit(make)
    objects.begin(to_be_resumed=False)
    assert (objects.changed().changed, objects.changed().lost) == ({}, [])
    model.make_train_function()
    model.fit(np.zeros((4, 4)), np.zeros((4, 2)), verbose=0)
    assert objects.changed().changed == {}, "weights, slots, metrics and History are saved elsewhere"
    assert objects.changed_at_end().lost == []


def test_on_train_begin_changes_count_only_at_the_end_of_the_fit(make):
    _, callback, objects = fit(make)
    callback.count()
    objects.begin(to_be_resumed=False)
    assert objects.changed().changed == {}
    assert "callback Counts" in objects.changed_at_end().changed


def test_changes_made_only_by_the_new_process_are_reverted(make):
    _, _, objects = fit(make)
    objects.begin(to_be_resumed=False)
    changes = through(objects.changed())
    _, callback, again = fit(make)
    again.begin(to_be_resumed=True)
    callback.count()
    callback.count()
    assert again.restore(changes) == []
    assert (callback.n, callback.losses, callback.table.sum()) == (0, [], 0)
    assert callback.rng.random() == Counts().rng.random()


def test_skipped_fit_has_its_end_state_restored(make):
    model, callback, objects = fit(make)
    objects.begin(to_be_resumed=False)
    callback.count()
    model.stopped = 3
    changes = through(objects.changed_at_end())
    again, callback_again, objects_again = fit(make)
    assert objects_again.restore_end(changes) == []
    assert (callback_again.n, again.stopped) == (1, 3)


def test_two_callbacks_of_the_same_class_each_have_their_state_restored(make):
    def both():
        model, callbacks = make(), [Counts(), Counts()]
        return callbacks, FitObjects(model, {}, callbacks)

    (first, second), objects = both()
    objects.begin(False)
    first.count()
    second.count()
    second.count()
    changes = through(objects.changed())
    callbacks, again = both()
    again.begin(True)
    again.restore(changes)
    assert [callback.n for callback in callbacks] == [1, 2]


def test_changes_in_the_data_are_restored_separately(make):
    class Pieces(keras.utils.PyDataset):
        def __init__(self):
            super().__init__()
            self.order = [0, 1, 2]

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.zeros((1, 4)), np.zeros((1, 2))

    def begun():
        pieces = Pieces()
        _, callback, objects = fit(make, x=pieces, y=None)
        objects.begin(True)
        return pieces, callback, objects

    pieces, callback, objects = begun()
    pieces.order.reverse()
    callback.count()
    changes = objects.data_changed()
    assert {key.partition(".")[0] for key in changes.changed} == {"data x"}
    again, callback_again, objects_again = begun()
    assert objects_again.restore_data(through(changes)) == []
    assert (again.order, callback_again.n) == ([2, 1, 0], 0)


def test_object_restored_by_other_means_is_not_restored_again(make):
    _, callback, objects = fit(make)
    objects.begin(False)
    callback.count()
    changes = through(objects.changed())
    _, again, objects_again = fit(make)
    objects_again.begin(True)
    again.rng.random()
    expected = again.rng.bit_generator.state
    objects_again.restore(changes, frozenset({"callback Counts.rng"}))
    assert again.rng.bit_generator.state == expected
    assert again.n == 1


def test_different_data_has_different_fingerprints(make):
    one, other = np.zeros((4, 4)), np.zeros((4, 4))
    other[0, 0] = 1
    found = [fit(make, x=x)[2].fingerprints() for x in (one, one.copy(), other)]
    assert found[0] == found[1] != found[2]
    assert set(found[0]) == {"values of x", "values of y"}
    generator = fit(make, x=(n for n in range(3)), y=None)[2].fingerprints()
    assert generator["values of x"].startswith("generator")
    dataset = [fit(make, x=tf.data.Dataset.from_tensor_slices(x), y=None)[2].fingerprints() for x in (one, other)]
    assert dataset[0] != dataset[1]


def test_model_variables_saved_elsewhere_are_not_stored_twice(make):
    model, _, objects = fit(make)
    objects.begin(True)
    model.layers[0].kernel.assign(model.layers[0].kernel + 1)
    model.optimizer.iterations.assign(5)
    assert (objects.changed().changed, objects.changed().arrays) == ({}, {})


def test_callbacks_that_refuse_attribute_access_are_still_restored(make):
    class Refuses(keras.callbacks.Callback):
        def __getattr__(self, name):
            raise RuntimeError(name)

    model = make()
    callback = Refuses()
    callback.set_model(model)
    model.callback, callback.all = callback, [model, callback]
    started = time.monotonic()
    objects = FitObjects(model, {"x": model}, [callback])
    objects.begin(True)
    callback.count = 3
    changes = through(objects.changed())
    assert "callback Refuses" in changes.changed
    assert objects.restore(changes) == []
    assert time.monotonic() - started < 10


def test_examined_user_objects_are_not_kept_alive(make):
    model, callback, objects = fit(make)
    objects.begin(False)
    there = weakref.ref(callback)
    del model, callback, objects
    gc.collect()
    assert there() is None


@pytest.mark.parametrize("document", [None, [], "x", {}, {"arrays": ["a"]}, {"changed": 5, "new": {}, "lost": []}])
def test_a_malformed_state_document_raises_an_error(document):
    with pytest.raises((ValueError, KeyError), match=r".+"):
        from_meta(document, {})


def test_a_checkpoint_shares_the_memory_of_arrays_and_tensors_until_it_is_detached(make):
    _, callback, objects = fit(make)
    callback.kept = []
    objects.begin(False)
    callback.kept.append(tf.ones((200, 100)))
    callback.count()
    _, saved = as_saved(objects.changed(), "object/")
    memory = [np.asarray(callback.kept[0]), callback.table]
    for array in saved:
        assert array.is_shared
        assert any(np.shares_memory(array.value, each) for each in memory)
        assert not any(np.shares_memory(array.detached().value, each) for each in memory)
    before = [array.detached().value for array in saved]
    callback.count()
    assert sorted(np.array_equal(array.value, was) for array, was in zip(saved, before, strict=True)) == [False, True]


class Rows(keras.utils.PyDataset):
    """Data with two arrays, of 160 and 80 kB."""

    def __init__(self):
        super().__init__()
        self.rows, self.more = np.zeros((200, 100)), np.zeros((100, 100))

    def __len__(self):
        return 3

    def __getitem__(self, n):
        return self.rows[:4, :4], np.zeros((4, 2))


@pytest.mark.parametrize(
    ("free", "copied"), [(None, {"rows", "more"}), (10**9, {"rows", "more"}), (10**6, {"more"}), (0, set())]
)
def test_arrays_behind_the_data_are_copied_if_there_is_memory(make, monkeypatch, free, copied):
    rows = Rows()
    _, _, objects = fit(make, x=rows, y=None)
    objects.begin(False)
    rows.rows[:], rows.more[:] = 1, 2
    monkeypatch.setattr(fit_objects, "available_bytes", lambda: free)
    arrays = objects.data_changed().arrays
    found = {name for name in ("rows", "more") if not np.shares_memory(arrays[f"data x.{name}"], getattr(rows, name))}
    assert found == copied


def test_arrays_that_stay_the_same_are_the_first_that_are_not_copied(make, monkeypatch):
    rows = Rows()
    _, _, objects = fit(make, x=rows, y=None)
    objects.begin(False)
    rows.rows[:], rows.more[:] = 1, 2
    earlier = objects.data_changed()
    rows.rows[:] = 3
    monkeypatch.setattr(fit_objects, "available_bytes", lambda: 2 * 10**6)
    later = objects.data_changed(earlier)
    assert later.not_copied == {"data x.more"}
    assert not np.shares_memory(later.arrays["data x.rows"], rows.rows)


def test_an_array_that_is_altered_before_it_is_saved_is_lost(make, monkeypatch):
    rows = Rows()
    _, _, objects = fit(make, x=rows, y=None)
    objects.begin(False)
    rows.rows[:], rows.more[:] = 1, 2
    monkeypatch.setattr(fit_objects, "available_bytes", lambda: 0)
    moment = objects.data_changed()
    assert moment.without_altered() == moment
    rows.rows[7, 7] = 5
    saved = moment.without_altered()
    assert list(saved.arrays) == ["data x.more"]
    assert [str(reason.value("where")) for reason in saved.lost] == ["data x.rows"]


def test_arrays_are_numbered_in_the_order_of_their_names():
    changes = Changes(arrays={"b": np.zeros(2, np.uint8), "a": np.ones(3, np.uint8)})
    meta, arrays = as_saved(changes, "object/")
    assert [(array.name, array.nbytes) for array in arrays] == [("object/0", 3), ("object/1", 2)]
    assert meta["arrays"] == ["a", "b"]


def test_long_byte_strings_are_saved_as_arrays_and_restored():
    content = (None, b"short", ("numbers", "<f8", bytes(range(256)) * 4), "text")
    changes = Changes(
        changed={"a": content}, new={"b": ("list", (None, b"x" * 5000))}, arrays={"c": np.ones(3, np.uint8)}
    )
    meta, arrays = as_saved(changes, "object/")
    assert [array.nbytes for array in arrays] == [3, 1024, 5000]
    assert len(json.dumps(meta)) < 400
    back = through(changes)
    assert (back.changed, back.new) == (changes.changed, changes.new)
    assert list(back.arrays) == ["c"]


@pytest.mark.parametrize("apart", [-1, 3, "1", None, 2**70])
def test_checkpoint_with_a_wrong_number_of_separate_byte_arrays_is_rejected(apart):
    document = {**as_saved(Changes(changed={"a": (b"x" * 5000,)}), "object/")[0], "apart": apart}
    with pytest.raises(ValueError, match="lacks arrays"):
        from_meta(document, {"0": np.zeros(5000, np.uint8)})


@pytest.mark.parametrize("number", [-1, 1, "0", None, True, [0]])
def test_a_reference_to_missing_bytes_is_rejected(number):
    document = {"changed": {"a": ["apart", number]}, "new": {}, "lost": [], "arrays": [], "apart": 1}
    with pytest.raises(ValueError, match="its bytes are missing"):
        from_meta(document, {"0": np.zeros(600, np.uint8)})


@pytest.mark.parametrize("seconds", [0.0, 1e-5])
def test_data_not_examined_in_time_has_no_fingerprint(make, monkeypatch, seconds):
    """The fingerprint of part of the data would look like different data in the next attempt."""
    data = {f"column {n}": np.zeros((4, 4)) for n in range(200)}
    monkeypatch.setattr(fit_objects, "_SECONDS", seconds)
    assert fit(make, x=data, y=None)[2].fingerprints() == {}
    monkeypatch.setattr(fit_objects, "_SECONDS", 60.0)
    assert set(fit(make, x=data, y=None)[2].fingerprints()) == {"values of x"}


class Holds(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kept = {
            "tensor": tf.ones((1000,)),
            "array": np.ones(1000),
            "variable": tf.Variable(tf.ones((1000,))),
        }


@pytest.mark.parametrize("what", ["tensor", "array", "variable"])
def test_array_dropped_by_a_callback_is_freed_during_the_fit(make, what):
    callback = Holds()
    objects = FitObjects(make(), {"x": np.zeros((4, 4))}, [callback])
    objects.begin(to_be_resumed=False)
    dropped = weakref.ref(callback.kept[what])
    callback.kept[what] = callback.kept[what] * 2
    gc.collect()
    assert dropped() is None
    saved = through(objects.changed())
    assert saved.lost == []

    again = Holds()
    objects_again = FitObjects(make(), {"x": np.zeros((4, 4))}, [again])
    objects_again.begin(to_be_resumed=True)
    assert objects_again.restore(saved) == []
    assert np.array_equal(again.kept[what], np.full(1000, 2.0))


def test_array_dropped_before_a_resume_comes_back_and_can_be_dropped_later(make):
    callback = Holds()
    objects = FitObjects(make(), {"x": np.zeros((4, 4))}, [callback])
    objects.begin(to_be_resumed=True)
    dropped = weakref.ref(callback.kept.pop("array"))
    assert objects.restore(Changes()) == []
    assert callback.kept["array"] is dropped()
    del callback.kept["array"]
    gc.collect()
    assert dropped() is None
    (lost,) = objects.restore(Changes())
    assert "kept" in str(lost)
    assert "no longer there" in str(lost)
