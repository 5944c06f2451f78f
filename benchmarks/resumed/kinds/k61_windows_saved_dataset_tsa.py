# Forecasting with Dataset.window/flat_map, the windowed data written with Dataset.save and loaded again, choose_from_datasets between two series by a random selector, a learning-rate sweep by LearningRateScheduler and Huber loss.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(61)

time = np.arange(900, dtype="float32")
window_size, batch_size, shuffle_buffer = 20, 32, 250


def seasonal(period, slope, noise):
    season = (time % period) / period
    pattern = np.where(season < 0.4, np.cos(season * 2 * np.pi), 1 / np.exp(3 * season))
    return (10 + slope * time + 8 * pattern + noise * np.random.randn(len(time))).astype("float32")


series_a, series_b = seasonal(50, 0.01, 1.0), seasonal(33, -0.005, 1.5)


def windows(series):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(window_size + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(window_size + 1))
    return ds.map(lambda w: (w[:-1] / 10.0, w[-1:] / 10.0))


windows(series_a[:700]).save("windows_a")
windows(series_b[:700]).save("windows_b")
loaded_a = tf.data.Dataset.load("windows_a")
loaded_b = tf.data.Dataset.load("windows_b")

selector = tf.data.Dataset.random().map(lambda r: r % 2).take(640)
train = (
    tf.data.Dataset.choose_from_datasets([loaded_a.shuffle(700), loaded_b.shuffle(700)], selector)
    .shuffle(shuffle_buffer)
    .batch(batch_size)
    .prefetch(1)
)
val = windows(series_a[700:]).concatenate(windows(series_b[700:])).batch(60)

model = keras.Sequential(
    [
        keras.Input((window_size,)),
        keras.layers.Lambda(lambda t: t[..., None]),
        keras.layers.Conv1D(16, 5, activation="relu", padding="causal"),
        keras.layers.Conv1D(16, 3, activation="relu", dilation_rate=2),
        keras.layers.Flatten(),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.SGD(1e-4, momentum=0.9), keras.losses.Huber(), metrics=["mae"])
sweep = keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 10 ** (1 / 5) if epoch < 10 else lr * 0.8)
hist = model.fit(train, validation_data=val, epochs=17, callbacks=[sweep], verbose=2)

best = int(np.argmin(hist.history["val_loss"]))
arrays = {f"w{i}": w for i, w in enumerate(model.get_weights())}
arrays.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
arrays.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
arrays["best"] = np.array([best, hist.history["learning_rate"][best]])
arrays["forecast"] = model.predict(val, verbose=0)
np.savez("result.npz", **arrays)
