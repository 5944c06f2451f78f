"""Two shapes that do not match in a custom layer."""

# finds: step-fails
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)


class Join(keras.layers.Layer):
    def call(self, x):
        return tf.concat([x, tf.zeros((7, 2))], axis=1)  # WRONG
        return tf.concat([x, tf.zeros((tf.shape(x)[0], 2))], axis=1)  # RIGHT

    def compute_output_shape(self, shape):
        return (shape[0], shape[1] + 2)


x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = keras.Sequential([Join(), keras.layers.Dense(4, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
