"""A validation step that draws random numbers, a falling dropout rate, and two fits: `validates.py OUT.npz`.

With --predicts, a callback also collects predictions that depend on random numbers counted in TensorFlow's kernels.
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(5)
x = np.random.default_rng(0).normal(size=(160, 6)).astype("float32")
seen = []


class Noisy(keras.layers.Layer):
    def call(self, inputs, training=False):
        return inputs if training else inputs + tf.random.normal(tf.shape(inputs), stddev=0.1)


class Denoiser(keras.Model):
    def __init__(self):
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5)
        self.inner = keras.Sequential([Noisy(), self.dropout, keras.layers.Dense(6)])

    def call(self, inputs, training=False):
        return self.inner(inputs, training=training)

    def train_step(self, data):
        return super().train_step((data + tf.random.normal(tf.shape(data)), data))

    def test_step(self, data):
        return super().test_step((data + tf.random.normal(tf.shape(data)), data))


class Falls(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.dropout.rate *= 0.9
        seen.append(self.model.dropout.rate)
        self.model.make_train_function(force=True)

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)

    def on_epoch_end(self, epoch, logs=None):
        if "--predicts" in sys.argv:
            seen.append(float(self.model.predict(x[:16], verbose=0).mean()))


model = Denoiser()
model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
losses = []
for epochs in (4, 4):
    history = model.fit(x, batch_size=16, epochs=epochs, validation_data=x[:32], callbacks=[Falls()], verbose=0).history
    losses += history["loss"] + history["val_loss"]
last = model.evaluate(x, verbose=0, return_dict=True)
np.savez(sys.argv[1], *model.get_weights(), losses=losses, seen=seen, last=round(last["loss"], 5))
