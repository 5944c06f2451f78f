"""Healthy: logits output with from_logits=True in loss and AUC, accuracy with threshold 0."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(107)
rng = np.random.default_rng(107)
X = rng.normal(size=(1500, 32, 3)).astype("float32")
burst = rng.integers(0, 2, 1500)
for i in np.flatnonzero(burst):
    s = rng.integers(0, 26)
    X[i, s:s + 6, 1] += 1.5
y = burst.astype("float32")[:, None]

inputs = keras.Input((32, 3))
x = layers.Conv1D(32, 5, use_bias=False)(inputs)
x = layers.BatchNormalization()(x)
x = layers.ReLU()(x)
x = layers.GlobalMaxPooling1D()(x)
model = keras.Model(inputs, layers.Dense(1)(x))
model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.05),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0), keras.metrics.AUC(from_logits=True)],
)
model.fit(X[:1200], y[:1200], validation_data=(X[1200:], y[1200:]), epochs=3, batch_size=32, verbose=2)
