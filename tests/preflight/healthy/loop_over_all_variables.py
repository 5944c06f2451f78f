"""A custom loop that passes `model.variables` to the optimizer, including the states of seeds and normalisation."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(0, 1, (128, 8)).astype("float32")
y = rng.integers(0, 3, 128)
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(3, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))
    grads = tape.gradient(loss, [variable.value for variable in model.variables])
    optimizer.apply_gradients(zip(grads, model.variables))
