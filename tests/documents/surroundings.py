"""The names that the Python in the documents uses without defining them. The tests put this in front of each block."""

import keras
import numpy as np
import tensorflow as tf

import oomph
import oomph.testing

assert_allclose = np.testing.assert_allclose
keras.utils.set_random_seed(0)
images = np.random.default_rng(0).random((64, 8)).astype("float32")
labels = np.arange(64) % 4
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32)


def small_model():
    keras.utils.set_random_seed(0)
    layers = [keras.Input((8,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(4, "softmax")]
    small = keras.Sequential(layers)
    small.compile("sgd", "sparse_categorical_crossentropy")
    return small


model = small_model()
optimizer = keras.optimizers.SGD(0.1)
loss_of = keras.losses.SparseCategoricalCrossentropy()
accuracy = keras.metrics.SparseCategoricalAccuracy()
history = []


@oomph.guard(batched=("some_images", "some_labels"))
@tf.function
def train_step(some_images, some_labels):
    with tf.GradientTape() as tape:
        loss = loss_of(some_labels, model(some_images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


config = {"steps": 6}


def train(config=config):
    """Train another small network for a few guarded steps, and return its weights. It runs in another process, too."""
    small = small_model()
    sgd = keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32)

    @oomph.guard(batched=("x", "y"))
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, small(x, training=True))
        sgd.apply(tape.gradient(loss, small.trainable_variables), small.trainable_variables)
        return loss

    for x, y in dataset.repeat().take(config["steps"]):
        step(x, y)
    return np.concatenate([weights.ravel() for weights in small.get_weights()])
