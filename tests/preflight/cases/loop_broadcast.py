"""y has shape (n,) and the predictions (n, 1), so the hand-written squared error is taken over all n x n pairs and the model learns only the mean."""

# finds: difference-broadcasts

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(43)
rng = np.random.default_rng(43)
X = rng.uniform(-2, 2, (1200, 3)).astype("float32")
y = (X[:, 0] ** 2 - X[:, 1] + 0.5 * X[:, 2] + rng.normal(0, 0.1, 1200)).astype("float32")
y = (y - y[:1000].mean()) / y[:1000].std()
y = y.reshape(-1, 1)  # RIGHT
y = y.reshape(-1)  # WRONG
train = tf.data.Dataset.from_tensor_slices((X[:1000], y[:1000])).shuffle(1000).batch(20)

model = keras.Sequential([
    keras.Input((3,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(32, activation="relu"),
    layers.Dense(1),
])
optimizer = keras.optimizers.Adam(3e-3)

@tf.function
def train_step(x, target):
    with tf.GradientTape() as tape:
        prediction = model(x, training=True)
        loss = tf.reduce_mean(tf.square(target - prediction))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(3):
    mean = keras.metrics.Mean()
    for x, target in train:
        mean.update_state(train_step(x, target))
    print("epoch", epoch, "loss", float(mean.result()))
test_prediction = model.predict(X[1000:], verbose=0)[:, 0]
print("test mse:", np.mean((test_prediction - np.ravel(y[1000:])) ** 2))
