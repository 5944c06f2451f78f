"""The last layer has no softmax, but the loss object is made without from_logits=True, so it treats raw scores as probabilities."""

# finds: logits-as-probabilities

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)
w = rng.normal(size=(20, 5))
x = rng.normal(size=(1600, 20)).astype("float32")
y = (x @ w + 0.3 * rng.normal(size=(1600, 5))).argmax(axis=1)
ds = tf.data.Dataset.from_tensor_slices((x[:1280], y[:1280])).shuffle(1280).batch(32)

model = keras.Sequential([
    keras.Input((20,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(5),
])
optimizer = keras.optimizers.Adam(5e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy()  # WRONG
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # RIGHT
acc = keras.metrics.SparseCategoricalAccuracy()

@tf.function
def step(xb, yb):
    with tf.GradientTape() as tape:
        out = model(xb, training=True)
        loss = loss_fn(yb, out)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    acc.update_state(yb, out)
    return loss


for epoch in range(3):
    acc.reset_state()
    for xb, yb in ds:
        loss = step(xb, yb)
    print("epoch", epoch, "loss", float(loss), "acc", float(acc.result()))
pred = model(x[1280:], training=False).numpy().argmax(axis=1)
print("test accuracy", (pred == y[1280:]).mean())
