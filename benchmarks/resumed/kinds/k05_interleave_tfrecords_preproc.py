# TFRecord shards written by the script, list_files + interleave, augmentation by Keras preprocessing layers (own seed generators) inside Dataset.map.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2024)

os.makedirs("records", exist_ok=True)


def blob(c, rng):
    yy, xx = np.mgrid[0:16, 0:16]
    img = np.zeros((16, 16), "float32")
    for _ in range(c + 1):
        a, b = rng.integers(2, 14, 2)
        img += np.exp(-((yy - a) ** 2 + (xx - b) ** 2) / 3.0)
    return np.clip(255 * (img * 0.6 + 0.15 * rng.random((16, 16))), 0, 255).astype("uint8")


rng = np.random.default_rng(0)
for shard in range(6):
    with tf.io.TFRecordWriter(f"records/part-{shard:03d}.tfrecord") as w:
        for _ in range(96 if shard < 5 else 80):
            c = int(rng.integers(0, 3))
            ex = tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "img": tf.train.Feature(bytes_list=tf.train.BytesList(value=[blob(c, rng).tobytes()])),
                        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[c])),
                    }
                )
            )
            w.write(ex.SerializeToString())


def parse(record):
    f = tf.io.parse_single_example(
        record, {"img": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    img = tf.reshape(tf.io.decode_raw(f["img"], tf.uint8), (16, 16, 1))
    return tf.cast(img, tf.float32) / 255.0, f["label"]


augmenter = keras.Sequential(
    [
        layers.RandomFlip("horizontal_and_vertical"),
        layers.RandomTranslation(0.15, 0.15),
        layers.RandomContrast(0.3),
    ]
)

train_files = tf.data.Dataset.list_files("records/part-00[0-4].tfrecord", shuffle=True)
train = (
    train_files.interleave(tf.data.TFRecordDataset, cycle_length=2, block_length=4)
    .map(parse)
    .shuffle(80)
    .batch(32)
    .map(lambda x, y: (augmenter(x, training=True), y))
)
val = tf.data.TFRecordDataset("records/part-005.tfrecord").map(parse).batch(40)

norm = layers.Normalization(axis=None)
norm.adapt(train.map(lambda x, y: x))

model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        norm,
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(3, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy", metrics=["acc"])
hist = model.fit(train, epochs=10, validation_data=val, verbose=0)

d = {f"var{i}": np.asarray(v) for i, v in enumerate(model.variables)}
d.update({f"aug{i}": np.asarray(v) for i, v in enumerate(augmenter.variables)})
d.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
d.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
d["pred"] = model.predict(val.take(1), verbose=0)
np.savez("result.npz", **d)
