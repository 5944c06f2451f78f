"""The validation images are flipped at random."""

# finds: random-validation
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
images = rng.random((400, 16, 16, 3)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int32")


def augment(image, label):
    return tf.image.random_brightness(image, 0.2), label


train = tf.data.Dataset.from_tensor_slices((images[:300], labels[:300])).shuffle(300).map(augment).batch(32)
held = tf.data.Dataset.from_tensor_slices((images[300:], labels[300:]))
held = held.map(augment)  # WRONG
held = held.batch(32)
model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=held, epochs=3)
