"""The position in a data pipeline: what TensorFlow saves of it, and what it does not."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest
import tensorflow as tf

from oomph.objects.library_kinds import DatasetIterator
from oomph.protocol.reason_table import EARLIER_SHUFFLE
from oomph.resume.state import iterators


def shuffled(batches=0):
    data = tf.data.Dataset.range(64).shuffle(20, seed=1).batch(8)
    return data.prefetch(batches) if batches else data


@pytest.mark.parametrize(
    ("make", "taken", "whole"),
    [
        (shuffled, 0, True),
        (shuffled, 3, True),
        (shuffled, 8, False),
        (lambda: shuffled(8).map(lambda x: x), 3, None),
        (lambda: tf.data.Dataset.range(64).batch(8), 8, True),
        (lambda: shuffled().repeat(), 8, True),
        (lambda: tf.data.Dataset.range(64).shuffle(64, seed=1).shuffle(8, seed=1).batch(8), 3, True),
        (lambda: tf.data.Dataset.range(64).shuffle(64, seed=1).shuffle(100, seed=1).batch(8), 3, False),
        (lambda: tf.data.Dataset.range(64).shuffle(64, 1, False).shuffle(100, seed=1).batch(8), 3, True),
    ],
)
def test_an_iterator_state_lacking_the_seeds_of_later_epochs_is_discarded(tmp_path, make, taken, whole):
    iterator = iter(make())
    for _ in range(taken):
        next(iterator)
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert iterators.save(iterator, folder) is None
        reason = iterators.drop_unusable(iterator, folder)
        assert iterators.is_saved(folder) == (not reason)
        assert bool(reason) == bool(list(folder.iterdir()) == [])
        if whole is not False or reason:
            break
        time.sleep(0.05)  # the pipeline's own thread has not reached the end yet; until then, the state is complete
    if whole is not None:  # how far a prefetch has got is not known
        assert bool(reason) != whole


@pytest.mark.parametrize(
    "reading",
    [
        lambda names: names.map(tf.io.read_file).prefetch(8),
        lambda names: names.map(tf.io.read_file, num_parallel_calls=8),
        lambda names: names.interleave(
            lambda name: tf.data.Dataset.from_tensors(name).map(tf.io.read_file), cycle_length=8, num_parallel_calls=8
        ),
    ],
)
def test_an_iterator_state_containing_a_failed_element_is_discarded(tmp_path, reading):
    """TensorFlow saves the error: a process that continues from it fails again even if the file is back."""
    names = [tmp_path / str(number) for number in range(8)]
    for name in names:
        name.write_text("content")
    iterator = iter(reading(tf.data.Dataset.from_tensor_slices([str(name) for name in names])))
    names[-1].unlink()
    assert next(iterator) == b"content"
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for _ in range(100):
        assert iterators.save(iterator, folder) is None
        if reason := iterators.drop_unusable(iterator, folder):
            break
        time.sleep(0.05)  # the pipeline's own threads have not reached the missing file yet
    assert "an element that was read ahead failed" in str(reason)
    assert not iterators.is_saved(folder)


def test_saving_an_unsavable_pipeline_is_attempted_only_once(tmp_path, monkeypatch):
    """TensorFlow prints two warnings per attempt."""
    real, tried = tf.train.Checkpoint, []

    def counted(**parts):
        tried.append(parts)
        return real(**parts)

    monkeypatch.setattr(tf.train, "Checkpoint", counted)
    data, other = (tf.data.Dataset.range(8).map(lambda x: tf.random.uniform([])) for _ in range(2))
    reasons = [iterators.save(iter(each), tmp_path) for each in (data, data, data, other)]
    assert all("is stateful" in str(reason) for reason in reasons)
    assert len(tried) == 2


def flipped(image):
    return tf.image.random_flip_left_right(tf.image.random_flip_up_down(image, seed=1), seed=2)


def brightened(image):
    return tf.image.random_brightness(image, 0.1) + tf.random.normal(())


@pytest.mark.parametrize(
    ("stages", "named"),
    [
        ([flipped], "tf.image.random_flip_left_right and tf.image.random_flip_up_down are stateful"),
        (
            [flipped, lambda image: image + 1.0, brightened],
            "tf.image.random_brightness, tf.random.normal, tf.image.random_flip_left_right and 1 more are stateful",
        ),
        ([tf.image.random_flip_left_right], "tf.image.random_flip_left_right is stateful"),
    ],
)
def test_every_random_operation_in_the_pipeline_is_reported(tmp_path, stages, named):
    """Replacing only the one that TensorFlow reports would lead to the next one in the next run."""
    data = tf.data.Dataset.from_tensor_slices(np.zeros((8, 4, 4, 1), "float32"))
    for stage in stages:
        data = data.map(stage)
    reason = iterators.save(iter(data), tmp_path)
    assert reason.value("why") == named
    assert reason.remedy.count(" instead of ") == min(3, named.count("tf."))


def test_iterator_still_writing_its_cache_is_not_saved_and_the_reason_is_given(tmp_path):
    """Once saved, it starts a second part; if that ends early, TensorFlow deletes other files with such a name."""
    dataset = tf.data.Dataset.range(3).cache(str(tmp_path / "train"))
    iterator = iter(dataset)
    next(iterator)
    assert "a cache file is being written" in str(iterators.is_caching(iterator))
    assert list(iterator)
    assert iterators.is_caching(iterator) is None
    assert iterators.is_caching(iter(tf.data.Dataset.range(3).cache())) is None
    assert iterators.is_caching(iter([1])) is None


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda data: data.shuffle(64, seed=1).cache(), EARLIER_SHUFFLE),
        (lambda data: data.shuffle(64, seed=1).cache().shuffle(8, seed=1), EARLIER_SHUFFLE),
        (lambda data: data.shuffle(64, seed=1, reshuffle_each_iteration=False).cache(), None),
        (lambda data: data.cache().shuffle(64, seed=1), None),
    ],
)
def test_full_cache_after_a_shuffle_is_the_reason_for_not_saving(tmp_path, make, kind):
    data = make(tf.data.Dataset.range(64)).batch(8)
    assert list(data), "the first epoch fills the cache"
    iterator = iter(data)
    next(iterator)
    assert iterators.save(iterator, tmp_path) is None
    reason = iterators.drop_unusable(iterator, tmp_path)
    assert (None if reason is None else reason.value("kind")) == kind
    assert reason == iterators.keeps_a_shuffle(data)


@pytest.mark.parametrize("save", [iterators.save, lambda iterator, folder: DatasetIterator().array(iterator)])
def test_saving_does_not_configure_the_scripts_logging(tmp_path, monkeypatch, save):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    save(iter(tf.data.Dataset.range(9)), tmp_path)
    assert logging.getLogger().handlers == []
