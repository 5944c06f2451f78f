# mixed_float16 with a dynamic LossScaleOptimizer whose scale over- and recovers several times (growth counter inside), plus an inner Adam with a decaying schedule.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(22)

keras.config.set_dtype_policy("mixed_float16")

n = 960
X = np.random.randn(n, 24).astype("float32")
X[:, 0] *= np.exp(np.random.randn(n) * 1.5)  # heavy tails
t = (X[:, 0] * 2 + X[:, 1] * X[:, 2] * 5 + np.random.randn(n)).astype("float32")

inp = keras.Input((24,))
h = layers.Dense(64, activation="relu")(inp)
h = layers.LayerNormalization()(h)
h = layers.Dense(64, activation="relu")(h)
h = layers.Dropout(0.05)(h)
out = layers.Dense(1, dtype="float32")(h)
model = keras.Model(inp, out)

inner = keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(4e-3, 60, 0.8, staircase=True))
opt = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**15, dynamic_growth_steps=12)
model.compile(opt, loss="mse", metrics=["mae"])


class ScaleLog(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.scales = []
        self.skips = 0
        self.last_iter = 0

    def on_train_batch_end(self, batch, logs=None):
        self.scales.append(float(self.model.optimizer.dynamic_scale.numpy()))
        it = int(self.model.optimizer.inner_optimizer.iterations)
        if it == self.last_iter:
            self.skips += 1
        self.last_iter = it


log = ScaleLog()
hist = model.fit(X, t, epochs=12, batch_size=32, validation_split=0.2, callbacks=[log], verbose=0)

res = {f"w{i}": np.asarray(v, dtype="float32") for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"inner{i}": np.asarray(v) for i, v in enumerate(inner.variables)})
res.update({k: np.array(v) for k, v in hist.history.items()})
res["scales"] = np.array(log.scales)
res["skips"] = np.array(log.skips)
res["pred"] = model.predict(X[:10], verbose=0)
np.savez("result.npz", **res)
