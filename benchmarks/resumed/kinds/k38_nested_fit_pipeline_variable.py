# A callback fits a small helper model at every epoch end (nested fit, warm-started), its output sets tf.Variables which the tf.data pipeline of the main model reads (sample weights, noise, mask).
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(38)

n = 640
Z = np.random.randn(n, 4)
domain = (np.random.rand(n) < 0.3).astype("float32")
X = np.concatenate([Z, Z**2, np.random.randn(n, 4)], 1)
X[:, :2] += 1.5 * domain[:, None]  # covariate shift
X = X.astype("float32")
y = (Z[:, 0] * Z[:, 1] + np.abs(Z[:, 2]) + 0.2 * np.random.randn(n)).astype("float32")

sample_weight = tf.Variable(np.ones(n, "float32"), trainable=False)
noise = tf.Variable(0.05, trainable=False)
feature_mask = tf.Variable(tf.ones((12,)), trainable=False)


def prepare(i, x, t):
    x = x * feature_mask + tf.random.normal(tf.shape(x)) * noise
    return x, t, tf.gather(sample_weight, i)


ds = tf.data.Dataset.from_tensor_slices((np.arange(n), X, y)).shuffle(n).map(prepare).batch(32)


class DomainReweighter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.helper = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1, activation="sigmoid")]
        )
        self.helper.compile(keras.optimizers.SGD(0.1, momentum=0.9), "binary_crossentropy")
        self.losses = []
        self.drop_order = np.random.permutation(np.arange(8, 12)).tolist()

    def on_epoch_end(self, epoch, logs=None):
        r = self.model.predict(X, verbose=0)[:, 0] - y
        pick = np.random.choice(n, 192, replace=False)
        h = self.helper.fit(r[pick, None], domain[pick], epochs=2, batch_size=32, verbose=0)
        self.losses += h.history["loss"]
        p = self.helper.predict(r[:, None], verbose=0)[:, 0]
        w = 0.8 * sample_weight.numpy() + 0.2 * np.clip(p / (1 - p), 0.2, 5.0)
        sample_weight.assign(w / w.mean())
        noise.assign(noise * 0.9 + 0.01 * h.history["loss"][-1])
        if epoch % 4 == 3 and self.drop_order:
            m = feature_mask.numpy()
            m[self.drop_order.pop()] = 0.0
            feature_mask.assign(m)


model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(36, activation="relu"), keras.layers.Dense(18, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(5e-3), "mse")
cb = DomainReweighter()
hist = model.fit(ds, epochs=11, callbacks=[cb], verbose=0)

res = {f"w{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"helper{i}": np.asarray(v) for i, v in enumerate(cb.helper.variables)})
res.update({f"helper_o{i}": np.asarray(v) for i, v in enumerate(cb.helper.optimizer.variables)})
res["loss"] = np.array(hist.history["loss"])
res["helper_losses"] = np.array(cb.losses)
res["sample_weight"] = sample_weight.numpy()
res["noise"] = noise.numpy()
res["mask"] = feature_mask.numpy()
res["pred"] = model.predict(X[:10], verbose=0)
np.savez("result.npz", **res)
