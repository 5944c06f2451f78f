"""The augmentation is cached."""

# finds: cached-too-late
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
images = rng.random((400, 16, 16, 3)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int32")


def augment(image, label):
    return tf.image.random_flip_left_right(image), label


dataset = tf.data.Dataset.from_tensor_slices((images, labels))
dataset = dataset.map(augment).cache()  # WRONG
dataset = dataset.cache().map(augment)  # RIGHT
dataset = dataset.shuffle(400).batch(32)
model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
