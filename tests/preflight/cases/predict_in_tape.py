"""model.predict returns numpy arrays, so the tape cannot follow it and all gradients are None; call the model itself."""

# finds: no-gradient

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(47)
rng = np.random.default_rng(47)
X = rng.normal(size=(500, 6)).astype("float32")
y = keras.utils.to_categorical(np.argmax(X[:, :3], axis=1), 3)

model = keras.Sequential([
    keras.Input((6,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(3, activation="softmax"),
])
loss_fn = keras.losses.CategoricalCrossentropy()
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
metric = keras.metrics.CategoricalAccuracy()

for epoch in range(3):
    order = rng.permutation(400)
    metric.reset_state()
    for start in range(0, 400, 20):
        rows = order[start:start + 20]
        with tf.GradientTape() as tape:
            output = model.predict(X[rows], verbose=0)  # WRONG
            output = model(X[rows], training=True)  # RIGHT
            loss = loss_fn(y[rows], output)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        metric.update_state(y[rows], output)
    print("epoch", epoch, "accuracy", float(metric.result()))
metric.reset_state()
metric.update_state(y[400:], model(X[400:], training=False))
print("test accuracy", float(metric.result()))
