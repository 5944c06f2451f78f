"""The custom train_step calls optimizer.minimize with a tape, which Keras 3 optimizers no longer have; use tape.gradient and apply_gradients."""

# finds: step-fails

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(48)
rng = np.random.default_rng(48)
X = rng.uniform(-1, 1, (1000, 5)).astype("float32")
y = (np.sin(3 * X[:, 0]) + X[:, 1]).astype("float32").reshape(-1, 1)

class NoisyInputModel(keras.Model):
    def train_step(self, data):
        x, target = data
        x = x + tf.random.normal(tf.shape(x), stddev=0.02)
        with tf.GradientTape() as tape:
            prediction = self(x, training=True)
            loss = self.compute_loss(x=x, y=target, y_pred=prediction)
        variables = self.trainable_variables
        self.optimizer.minimize(loss, variables, tape=tape)  # WRONG
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))  # RIGHT
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(target, prediction)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((5,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dense(32, activation="relu")(h)
model = NoisyInputModel(inputs, layers.Dense(1)(h))
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="mse", metrics=["mae"])
model.fit(X, y, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
