"""The gradients are computed but apply_gradients is never called, so the weights stay as they were at the start."""

# finds: nothing-applied

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(62)
rng = np.random.default_rng(62)
k = rng.integers(0, 3, 900)
x = (rng.normal(0, 1.3, (3, 15))[k] + rng.normal(0, 0.8, (900, 15))).astype("float32")

class NoisyModel(keras.Model):
    """Trains on inputs with a little added noise."""

    def train_step(self, data):
        x, y = data
        x = x + 0.1 * tf.random.normal(tf.shape(x))
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))  # RIGHT
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((15,))
h = layers.Dense(32, activation="relu")(inputs)
outputs = layers.Dense(3, activation="softmax")(h)
model = NoisyModel(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.004), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[:750], k[:750], epochs=3, batch_size=25, validation_data=(x[750:], k[750:]), verbose=2)
print("val", model.evaluate(x[750:], k[750:], verbose=0))
