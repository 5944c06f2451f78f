"""Pipelines with large buffers are read with small ones; nothing is written, and the rest stays the same."""

from __future__ import annotations

import time

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from oomph.planning.data_buffers import DataBuffer  # noqa: E402
from oomph.planning.live import readable as module  # noqa: E402
from oomph.planning.live.readable import readable  # noqa: E402
from oomph.preflight.live.data_facts import look_at  # noqa: E402

LARGE = 10**9
"""Elements that do not fit on any machine."""


def images(count: int = LARGE, seconds: float = 0.0):
    """Return 64 KiB images, each with its number."""

    def image(index):
        pause = tf.py_function(lambda: time.sleep(seconds), [], []) if seconds else tf.no_op()
        with tf.control_dependencies([pause] if seconds else []):
            return tf.fill((128, 128), tf.cast(index, tf.float32)), index

    return tf.data.Dataset.range(count).map(image)


def first(dataset, number: int = 2):
    return list(dataset.take(number).as_numpy_iterator())


def test_an_oversized_shuffle_is_read_with_a_small_buffer():
    found = readable(images().shuffle(LARGE).batch(4).prefetch(2))
    assert found.is_changed
    assert found.mixes_less
    assert found.buffers[0] == DataBuffer("shuffle", LARGE, 128 * 128 * 4 + 8)
    batch, numbers = first(found.dataset)[0]
    assert batch.shape == (4, 128, 128)
    assert sorted(numbers) != [0, 1, 2, 3]  # it still shuffles
    assert numbers.max() < 2000


def test_a_dataset_with_a_moderate_shuffle_is_read_unchanged():
    dataset = images(5000).shuffle(2000).batch(4).prefetch(2)
    found = readable(dataset)
    assert found.dataset is dataset
    assert not found.is_changed
    assert found.buffers[0].elements == 2000


def test_shuffle_buffer_larger_than_the_data_counts_only_its_elements():
    assert readable(images(100).shuffle(LARGE)).buffers[0].elements == 100
    assert not readable(images(100).shuffle(LARGE)).is_changed


@pytest.mark.parametrize(
    "made",
    [
        lambda: tf.data.Dataset.zip((images().shuffle(LARGE), images().shuffle(LARGE, seed=4))),
        lambda: images().map(lambda x, n: tf.py_function(lambda v: v + 1, [x], tf.float32)).shuffle(LARGE).repeat(),
        lambda: images().cache().shuffle(LARGE),
        lambda: images().repeat().cache().batch(2).prefetch(LARGE),
        lambda: images().shuffle(LARGE).padded_batch(4).with_options(tf.data.Options()),
        lambda: images().shuffle(tf.data.UNKNOWN_CARDINALITY).filter(lambda x, n: n % 2 == 0),
        lambda: tf.data.Dataset.from_generator(
            lambda: iter([np.zeros(2**20, "float32")] * 10**4),
            output_signature=tf.TensorSpec((None,), tf.float32),
        ).shuffle(LARGE),
        lambda: tf.data.Dataset.range(LARGE).map(lambda i: tf.strings.as_string(tf.range(20000))).shuffle(LARGE),
        lambda: tf.data.Dataset.range(LARGE).map(lambda i: tf.ragged.range([9, 99999])).shuffle(LARGE),
    ],
    ids=["zip", "python", "cache", "prefetch", "unknown to rebuild", "all", "generator", "text", "ragged"],
)  # fmt: skip
def test_every_kind_of_pipeline_with_a_large_buffer_is_read_quickly(made):
    dataset = made()
    began = time.monotonic()
    found = readable(dataset)
    assert found.is_changed
    assert len(first(found.dataset)) == 2
    assert found.dataset.element_spec == dataset.element_spec
    assert time.monotonic() - began < 20


def test_arrays_too_large_to_copy_are_not_read_in_full(monkeypatch):
    monkeypatch.setattr(module, "_MOST_COPIED", 1000)
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    arrays = tf.data.Dataset.from_tensor_slices(np.arange(40000, dtype="float32").reshape(10000, 4))
    known = readable(arrays.shuffle(10000).map(lambda x: x + 1).cache().batch(5).prefetch(9))
    assert first(known.dataset)[0].shape == (5, 4)
    assert first(known.dataset)[0].max() < 4 * 1100
    captured = np.zeros((10000, 4), "float32")
    tensor = tf.constant(captured)
    assert readable(tf.data.Dataset.range(10000).map(lambda i: tensor[i]).shuffle(10000)).dataset is not None
    unknown = readable(arrays.shuffle(10000).take_while(lambda x: True).batch(5))
    assert unknown.is_changed
    assert unknown.dataset is None
    looked = look_at(arrays.shuffle(10000).take_while(lambda x: True).batch(5)).data
    assert (looked.failed, looked.batches, looked.parts[0].sample) == ("", None, None)


def test_a_slow_shuffle_is_read_with_a_small_buffer():
    assert readable(images(6000, seconds=0.01).shuffle(6000)).is_changed
    assert not readable(images(6000, seconds=0.0001).shuffle(1000)).is_changed


def test_examining_a_dataset_does_not_write_its_cache_file(tmp_path):
    file = str(tmp_path / "cached")
    dataset = images(10).cache(file).batch(5)
    found = readable(dataset)
    assert found.buffers == (DataBuffer("cache", 10, 128 * 128 * 4 + 8, file),)
    looked = look_at(dataset).data
    assert looked.samples == 10
    assert list(tmp_path.iterdir()) == []
    assert looked.room.disk
    list(dataset)  # the script itself writes it
    assert not readable(images(10).cache(file).batch(5)).is_changed


def test_targets_read_with_a_reduced_shuffle_are_not_sampled():
    labels = tf.data.Dataset.range(LARGE).map(lambda i: (tf.zeros((4000,)), tf.cast(i > 10**6, tf.int32)))
    looked = look_at(labels.shuffle(LARGE).batch(8)).data
    assert looked.of("x")[0].sample is not None
    assert looked.of("y")[0].sample is None
    assert look_at(labels.shuffle(500).batch(8)).data.of("y")[0].sample is not None
