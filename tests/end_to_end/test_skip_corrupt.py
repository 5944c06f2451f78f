"""Data that cannot be read or decoded are left out with `--skip-corrupt`, one by one, and named."""

from __future__ import annotations

import pytest

IMAGES = """
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

BROKEN = (7, 33) if "broken" in sys.argv else ()
Path("images").mkdir(exist_ok=True)
for number in range(40):
    image = tf.io.encode_jpeg(np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)).numpy()
    Path(f"images/{number:02}.jpg").write_bytes(image[:40] if number in BROKEN else image)


def load(path):
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.reshape(tf.cast(image, tf.float32) / 255.0, (192,)), tf.reshape(tf.strings.length(path), (1,))


files = tf.data.Dataset.list_files("images/*.jpg", seed=3).shuffle(40, seed=5)
data = files.map(load, num_parallel_calls=2)
if "by hand" in sys.argv:
    data = data.ignore_errors()
data = data.batch(4).prefetch(2)

import keras

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((192,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.001), "mse")
model.fit(data, epochs=1 if BROKEN else 3, verbose=0)  # Keras reads other data of unknown length anew
print([float(each).hex() for each in model.get_weights()[0][:, 0]])
"""
RECORDS = """
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

for name in ("a.tfrecord", "b.tfrecord"):
    with tf.io.TFRecordWriter(name) as writer:
        for number in range(30):
            writer.write(np.full(4, number / 30, "float32").tobytes())
content = bytearray(Path("a.tfrecord").read_bytes())
content[20 * len(content) // 30 + 14] ^= 0xFF  # within the 21st record
Path("a.tfrecord").write_bytes(content)

data = tf.data.TFRecordDataset(["a.tfrecord", "b.tfrecord"])
data = data.map(lambda record: (tf.reshape(tf.io.decode_raw(record, tf.float32), (4,)), 1.0)).batch(10)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, verbose=0)
print(sum(len(x) for x, _ in data))
"""
GENERATOR = """
import keras
import numpy as np
import tensorflow as tf


def rows():
    for number in range(20):
        if number == 10:
            raise RuntimeError("this row is broken")
        yield np.ones(4, "float32")


data = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((4,), tf.float32))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data.map(lambda row: (row, 1.0)).batch(5), verbose=0)
"""


def test_images_that_cannot_be_decoded_are_left_out_and_named(work):
    work.write(IMAGES)
    by_hand = work.plain("train.py", "broken", "by hand")
    ours = work.oomph("--skip-corrupt", "train.py", "broken")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == by_hand.stdout
    (event,) = ours.events("records-left-out")
    assert event.data["records"] == ["images/07.jpg", "images/33.jpg"]
    assert event.data["complete"]
    assert ours.summary["left_out"] == "left out 2 corrupt records: images/07.jpg, images/33.jpg"
    assert ours.summary["exactness"] == "not-equal"
    assert "left out 2 corrupt records: images/07.jpg, images/33.jpg" in ours.stderr


@pytest.mark.slow
def test_sound_data_give_the_same_bits_and_nothing_is_left_out(work):
    work.write(IMAGES)
    plain = work.plain("train.py")
    ours = work.oomph("--skip-corrupt", "train.py")
    assert ours.stdout == plain.stdout
    assert ours.summary["left_out"] == ""
    assert not ours.events("records-left-out")
    assert ours.summary["exactness"] == "exact"


@pytest.mark.slow
def test_without_the_option_the_script_fails_as_it_does_under_python(work):
    work.write(IMAGES)
    ours = work.oomph("train.py", "broken")
    assert ours.returncode == 1
    assert "InvalidArgumentError" in ours.stderr


@pytest.mark.slow
def test_of_a_file_of_records_the_rest_is_lost_and_said_to_be(work):
    work.write(RECORDS)
    ours = work.oomph("--skip-corrupt", "train.py", env={"TF_CPP_MIN_LOG_LEVEL": "1"})
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "50\n"
    assert ours.summary["left_out"] == "left out 1 corrupt record: a.tfrecord, from record 21 on"


NESTED = """
files = tf.data.Dataset.from_tensor_slices(["a.tfrecord", "b.tfrecord"]).shuffle(2)
decode = lambda record: (tf.reshape(tf.io.decode_raw(record, tf.float32), (4,)), 1.0)
data = files.interleave(lambda file: tf.data.TFRecordDataset(file).map(decode), num_parallel_calls=2).batch(10)
tf.function(lambda: data.cardinality())()
"""


@pytest.mark.slow
def test_a_record_of_a_pipeline_within_a_pipeline_is_named(work):
    head, _, tail = RECORDS.partition("data = tf.data.TFRecordDataset")
    work.write(head + NESTED + tail[tail.index("model =") :])
    ours = work.oomph("--skip-corrupt", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "50\n"
    assert ours.summary["left_out"] == "left out 1 corrupt record: a.tfrecord, from record 21 on"


@pytest.mark.slow
def test_the_error_of_a_generator_stays_an_error(work):
    work.write(GENERATOR)
    ours = work.oomph("--skip-corrupt", "train.py")
    assert ours.returncode == 1
    assert "this row is broken" in ours.stderr
    assert ours.summary["left_out"] == ""
