"""The loss object is called with the prediction first and the label second; Keras losses expect (y_true, y_pred)."""

# finds: swapped-loss

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(44)
rng = np.random.default_rng(44)
X = rng.normal(size=(1200, 10)).astype("float32")
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype("float32").reshape(-1, 1)
train = tf.data.Dataset.from_tensor_slices((X[:1000], y[:1000])).shuffle(1000).batch(20)

inputs = keras.Input((10,))
h = layers.Dense(32, activation="relu")(inputs)
outputs = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inputs, outputs)
loss_fn = keras.losses.BinaryCrossentropy()
optimizer = keras.optimizers.Adam(5e-3)
accuracy = keras.metrics.BinaryAccuracy()

for epoch in range(3):
    accuracy.reset_state()
    for xb, yb in train:
        with tf.GradientTape() as tape:
            prediction = model(xb, training=True)
            loss = loss_fn(prediction, yb)  # WRONG
            loss = loss_fn(yb, prediction)  # RIGHT
        grads = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(grads, model.trainable_weights))
        accuracy.update_state(yb, prediction)
    print(f"epoch {epoch}: loss {float(loss):.3f} accuracy {float(accuracy.result()):.3f}")
test = model.predict(X[1000:], verbose=0) > 0.5
print("test accuracy:", np.mean(test == (y[1000:] > 0.5)))
