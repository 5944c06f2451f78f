# Progressive resizing: one fully convolutional net is fitted on 8x8, 12x12 and 16x16 pictures in turn, with augmentation getting stronger.
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(17)

# blobs at one of four corners
N = 400
labels = np.random.randint(0, 4, size=N)
images = np.random.rand(N, 16, 16, 1).astype("float32") * 0.5
for im, l in zip(images, labels):
    r, c = divmod(l, 2)
    im[2 + 8 * r:6 + 8 * r, 2 + 8 * c:6 + 8 * c, 0] += np.random.rand()


def make_ds(size, training, batch=40):
    x, yy = (images[:320], labels[:320]) if training else (images[320:], labels[320:])
    ds = tf.data.Dataset.from_tensor_slices((x, yy))
    if training:
        ds = ds.shuffle(320, reshuffle_each_iteration=True)
    ds = ds.map(lambda a, b: (tf.image.resize(a, (size, size)), b), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch).prefetch(2)


def build(strength):
    aug = keras.Sequential([layers.RandomTranslation(strength, strength), layers.RandomContrast(strength)], name="aug")
    inp = keras.Input((None, None, 1))
    x = aug(inp)
    x = layers.Conv2D(12, 3, padding="same", activation="relu", name="c1")(x)
    x = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu", name="c2")(x)
    x = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)])
    out = layers.Dense(4, activation="softmax", name="head")(x)
    return keras.Model(inp, out)


result, epoch, weights = {}, 0, None
for stage, (size, epochs, strength, lr) in enumerate([(8, 4, 0.02, 5e-3), (12, 3, 0.05, 2e-3), (16, 3, 0.1, 1e-3)]):
    print(f"=== stage {stage}: {size}x{size}, lr {lr}")
    model = build(strength)
    if weights is not None:
        model.set_weights(weights)
    model.compile(keras.optimizers.SGD(lr * 10, momentum=0.9, nesterov=True),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    h = model.fit(make_ds(size, True), validation_data=make_ds(size, False),
                  initial_epoch=epoch, epochs=epoch + epochs, verbose=2)
    epoch += epochs
    weights = model.get_weights()
    model.save(f"stage{stage}.keras")
    for k, v in h.history.items():
        result[f"s{stage}_{k}"] = np.array(v)
    for i, v in enumerate(model.optimizer.variables):
        result[f"s{stage}_opt{i}"] = np.asarray(v)
    for i, v in enumerate(model.variables):
        result[f"s{stage}_var{i}"] = np.asarray(v)

reloaded = keras.models.load_model("stage0.keras")
result["pred_stage0"] = reloaded.predict(tf.image.resize(images[320:340], (8, 8)), verbose=0)
result["pred"] = model.predict(images[320:340], verbose=0)
np.savez("result.npz", **result)
