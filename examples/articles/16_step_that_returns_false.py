"""Trains with a step that returns False when memory runs out, and skips the batch; with --guarded, no batch is lost."""

import sys

import keras
import tensorflow as tf
from pictures import images, labels, network

import oomph

keras.utils.set_random_seed(1)
model = network()
optimizer = keras.optimizers.Adam(2e-3)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def apply_gradients(pictures, digits):
    with tf.GradientTape() as tape:
        loss = loss_of(digits, model(pictures, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


if "--guarded" in sys.argv:
    apply_gradients = oomph.guard(apply_gradients)


def train_step(pictures, digits):
    """Return True if the step was trained."""
    try:
        apply_gradients(pictures, digits)
        return True
    except tf.errors.ResourceExhaustedError:
        return False


batches = tf.data.Dataset.from_tensor_slices((images[:512], labels[:512])).batch(256)
print("trained", sum(train_step(*batch) for batch in batches), "of", len(batches))
