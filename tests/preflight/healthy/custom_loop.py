"""A custom loop with a tf.function, as in the guide."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = rng.random((512, 784)).astype("float32"), rng.integers(0, 10, 512)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).batch(64)
model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
optimizer = keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    return loss


for epoch in range(2):
    for batch, labels in dataset:
        loss = train_step(batch, labels)
