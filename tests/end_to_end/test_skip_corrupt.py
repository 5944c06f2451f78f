"""Data that cannot be read or decoded is skipped with `--skip-corrupt`, record by record, and reported."""

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
SOUND = """
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = rng.normal(size=(120, 4)).astype("float32"), rng.normal(size=(120, 1)).astype("float32")
for name in ("a.tfrecord", "b.tfrecord"):
    with tf.io.TFRecordWriter(name) as writer:
        for row in x:
            writer.write(row.tobytes())

slices = tf.data.Dataset.from_tensor_slices
rows = slices((x, y))
double = lambda a, b: (a * 2, b)
decode = lambda record: (tf.reshape(tf.io.decode_raw(record, tf.float32), (4,)), tf.ones((1,)))
noisy = lambda a, b: (a + tf.random.normal((4,), seed=4), b)
files = slices(["a.tfrecord", "b.tfrecord"])
records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
PIPELINES = {
    "map": (rows.map(double, num_parallel_calls=2).shuffle(50, seed=1).batch(16), {}),
    "zip": (tf.data.Dataset.zip((slices(x).map(lambda a: a * 2), slices(y))).shuffle(120, seed=2).batch(16), {}),
    "cache": (rows.map(double).cache().shuffle(120, seed=3).batch(16, drop_remainder=True).prefetch(1), {}),
    "filter": (rows.filter(lambda a, b: a[0] > 0).shuffle(60, seed=4).batch(8), {}),
    "steps": (rows.map(double).shuffle(120, seed=5).repeat().batch(16), {"steps_per_epoch": 5}),
    "records": (tf.data.TFRecordDataset(["a.tfrecord", "b.tfrecord"]).shuffle(240, seed=6).map(decode).batch(16), {}),
    "interleave": (records.map(decode).shuffle(240, seed=7).batch(16), {}),
    "random": (rows.shuffle(120, seed=8).map(noisy).batch(16), {}),
    "joined": (rows.take(50).map(double).concatenate(rows.skip(50)).shuffle(120, seed=9).batch(16), {}),
    "unbatched": (rows.batch(10).map(double).unbatch().shuffle(120, seed=10).batch(16), {}),
}

import keras

for name, (data, more) in PIPELINES.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    held = slices((x, y)).map(double).batch(40)
    history = model.fit(data, epochs=3, validation_data=held, verbose=0, **more).history
    print(name, [float(each).hex() for each in (*model.get_weights()[0][:, 0], *history["val_loss"])])
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


@pytest.mark.slow
def test_undecodable_images_are_skipped_and_reported(work):
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
def test_intact_data_gives_the_same_output_without_skips(work):
    """Ten different pipelines, one after another, each reshuffled in every epoch."""
    work.write(SOUND)
    plain = work.plain("train.py")
    ours = work.oomph("--skip-corrupt", "train.py")
    assert len(plain.stdout.splitlines()) == 10, plain.stderr[-3000:]
    assert ours.stdout == plain.stdout
    assert ours.summary["left_out"] == ""
    assert not ours.events("records-left-out")
    assert ours.summary["exactness"] == "exact"


@pytest.mark.slow
def test_corrupt_image_fails_the_script_without_the_skip_option(work):
    work.write(IMAGES)
    ours = work.oomph("train.py", "broken")
    assert ours.returncode == 1
    assert "InvalidArgumentError" in ours.stderr


@pytest.mark.slow
def test_rest_of_a_corrupt_record_file_is_skipped_and_reported(work):
    work.write(RECORDS)
    ours = work.oomph("--skip-corrupt", "train.py", env={"TF_CPP_MIN_LOG_LEVEL": "1"})
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "50\n"
    assert ours.summary["left_out"] == "left out 1 corrupt record: a.tfrecord, starting at record 21"


NESTED = """
files = tf.data.Dataset.from_tensor_slices(["a.tfrecord", "b.tfrecord"]).shuffle(2)
decode = lambda record: (tf.reshape(tf.io.decode_raw(record, tf.float32), (4,)), 1.0)
data = files.interleave(lambda file: tf.data.TFRecordDataset(file).map(decode), num_parallel_calls=2).batch(10)
tf.function(lambda: data.cardinality())()
"""


@pytest.mark.slow
def test_corrupt_record_in_a_nested_pipeline_is_reported(work):
    head, _, tail = RECORDS.partition("data = tf.data.TFRecordDataset")
    work.write(head + NESTED + tail[tail.index("model =") :])
    ours = work.oomph("--skip-corrupt", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "50\n"
    assert ours.summary["left_out"] == "left out 1 corrupt record: a.tfrecord, starting at record 21"


@pytest.mark.slow
def test_generator_error_is_raised_despite_the_skip_option(work):
    work.write(GENERATOR)
    ours = work.oomph("--skip-corrupt", "train.py")
    assert ours.returncode == 1
    assert "this row is broken" in ours.stderr
    assert ours.summary["left_out"] == ""
