"""The loss is computed after the with block of the GradientTape, so the tape did not record it and all gradients are None."""

# finds: no-gradient

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(52)
rng = np.random.default_rng(52)
x = rng.uniform(-2, 2, size=(1000, 3)).astype("float32")
y = (x[:, :1] * x[:, 1:2] + x[:, 2:]).astype("float32")
batches = tf.data.Dataset.from_tensor_slices((x[:800], y[:800])).shuffle(800).batch(20)

net = keras.Sequential([
    keras.Input((3,)),
    keras.layers.Dense(48, activation="relu"),
    keras.layers.Dense(48, activation="relu"),
    keras.layers.Dense(1),
])
adam = keras.optimizers.Adam(0.005)
mse = keras.losses.MeanSquaredError()
mean_loss = keras.metrics.Mean()

for epoch in range(3):
    mean_loss.reset_state()
    for xb, yb in batches:
        with tf.GradientTape() as tape:
            pred = net(xb, training=True)
            loss = mse(yb, pred)  # RIGHT
        loss = mse(yb, pred)  # WRONG
        grads = tape.gradient(loss, net.trainable_variables)
        adam.apply_gradients(zip(grads, net.trainable_variables))
        mean_loss.update_state(loss)
    print("epoch", epoch, "loss", float(mean_loss.result()))
test_pred = net(x[800:], training=False)
print("test mse", float(mse(y[800:], test_pred)), "variance", y[800:].var())
