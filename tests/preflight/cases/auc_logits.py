"""The model outputs logits, but AUC expects probabilities between 0 and 1 unless from_logits=True is set."""

# finds: wrong-accuracy

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(65)
rng = np.random.default_rng(65)
X = rng.normal(size=(1200, 9)).astype("float32")
y = (X[:, 0] + X[:, 1] ** 2 > 1.0).astype("float32")
train = tf.data.Dataset.from_tensor_slices((X[:960], y[:960])).shuffle(960).batch(16)
val = tf.data.Dataset.from_tensor_slices((X[960:], y[960:])).batch(64)

auc = keras.metrics.AUC(name="auc")  # WRONG
auc = keras.metrics.AUC(from_logits=True, name="auc")  # RIGHT
model = keras.Sequential([
    keras.Input((9,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(16, activation="relu"),
    layers.Dense(1),
])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[auc, keras.metrics.BinaryAccuracy(threshold=0.0)],
)
model.fit(train, validation_data=val, epochs=3, verbose=2)
