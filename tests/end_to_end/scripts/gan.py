"""A model without `call` whose two networks each have an optimizer, as in Keras' GAN examples.

`gan.py OUT.npz [--eager | --own-function]`
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
EAGER = "--eager" in sys.argv


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        self.discriminator = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])

    def compile(self, generator_optimizer, discriminator_optimizer, **options):
        super().compile(**options)
        self.generator_optimizer, self.discriminator_optimizer = generator_optimizer, discriminator_optimizer

    def train_step(self, data):
        x, y = data
        for network, optimizer in (
            (self.generator, self.generator_optimizer),
            (self.discriminator, self.discriminator_optimizer),
        ):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
            weights = network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


class OwnFunction(Gan):
    def make_train_function(self, force=False):
        return super().make_train_function(force)


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


x = np.random.default_rng(0).normal(size=(320, 4)).astype("float32")
model = OwnFunction() if "--own-function" in sys.argv else Gan()
options = {"run_eagerly": True} if EAGER else {"jit_compile": False}
model.compile(keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.05, momentum=0.9), **options)
model.fit(x, x[:, :1], batch_size=16, epochs=4, verbose=0, callbacks=[Pace()])
model.generator_optimizer.learning_rate = 0.01
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0, callbacks=[Pace()])
slots = [*model.generator_optimizer.variables, *model.discriminator_optimizer.variables]
np.savez(sys.argv[1], **{str(i): np.asarray(v) for i, v in enumerate([*model.variables, *slots])})
