"""Regression with uncertainty: the network gives mean and log-variance, the loss is the Gaussian negative log-likelihood (it may fall below 0)."""
import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(71)
rng = np.random.default_rng(71)
x = rng.uniform(-1, 1, size=(1500, 2)).astype("float32")
noise = 0.02 + 0.25 * np.abs(x[:, 1])
y = (np.sin(2 * x[:, 0]) + noise * rng.normal(size=1500)).astype("float32")[:, None]


def nll(y_true, y_pred):
    mean, log_var = y_pred[:, :1], ops.clip(y_pred[:, 1:], -8.0, 4.0)
    return 0.5 * (log_var + ops.square(y_true - mean) * ops.exp(-log_var))


def mae_of_mean(y_true, y_pred):
    return ops.mean(ops.abs(y_true - y_pred[:, :1]), axis=-1)


inputs = keras.Input((2,))
h = layers.Dense(64, activation="swish")(inputs)
h = layers.Dense(64, activation="swish")(h)
outputs = layers.Dense(2, name="mean_and_log_var")(h)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.004), loss=nll, metrics=[mae_of_mean])
model.fit(x[:1200], y[:1200], batch_size=24, epochs=3, validation_data=(x[1200:1350], y[1200:1350]), verbose=2)
print("test", model.evaluate(x[1350:], y[1350:], verbose=0))
