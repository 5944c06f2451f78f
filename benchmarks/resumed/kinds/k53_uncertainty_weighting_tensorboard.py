# Two tasks balanced by learned uncertainties in an add_loss layer (no loss in compile), TensorBoard with update_freq and the user's own tf.summary scalars, event files read back at the end.
import glob
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(53)

n = 720
x = np.random.rand(n, 5).astype("float32")
y1 = (np.sin(4 * x[:, :1]) + x[:, 1:2] + 0.05 * np.random.randn(n, 1)).astype("float32")
y2 = (20 * x[:, 2:3] * x[:, 3:4] + 3.0 * np.random.randn(n, 1)).astype("float32")


class MultiLossLayer(layers.Layer):
    def __init__(self, n_tasks, **kw):
        super().__init__(**kw)
        self.n_tasks = n_tasks

    def build(self, shapes):
        self.log_vars = [
            self.add_weight(name=f"log_var{i}", shape=(1,), initializer="zeros") for i in range(self.n_tasks)
        ]

    def call(self, inputs):
        ys, preds = inputs[: self.n_tasks], inputs[self.n_tasks :]
        for y, p, s in zip(ys, preds, self.log_vars):
            self.add_loss(ops.mean(ops.exp(-s) * ops.square(y - p) + s))
        return ops.concatenate(preds, axis=-1)


a, b1, b2 = keras.Input((5,)), keras.Input((1,)), keras.Input((1,))
h = layers.Dense(32, activation="relu")(a)
h = layers.Dropout(0.05)(h)
p1 = layers.Dense(1)(layers.Dense(16, activation="relu")(h))
p2 = layers.Dense(1)(layers.Dense(16, activation="relu")(h))
out = MultiLossLayer(2, name="uncertainty")([b1, b2, p1, p2])
model = keras.Model([a, b1, b2], out)
model.compile(optimizer=keras.optimizers.Adam(5e-3))


class LogVars(keras.callbacks.Callback):
    """Standard deviations of both tasks as own scalars."""

    def on_train_begin(self, logs=None):
        self.writer = tf.summary.create_file_writer("logs/sigmas")
        self.step = 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % 8 == 0:
            with self.writer.as_default():
                for i, s in enumerate(self.model.get_layer("uncertainty").log_vars):
                    tf.summary.scalar(f"sigma{i}", float(np.exp(0.5 * np.asarray(s)[0])), step=self.step)

    def on_epoch_end(self, epoch, logs=None):
        self.writer.flush()

    def on_train_end(self, logs=None):
        self.writer.close()


hist = model.fit(
    [x, y1, y2],
    batch_size=30,
    epochs=11,
    validation_split=0.15,
    callbacks=[keras.callbacks.TensorBoard("logs", update_freq=5, write_graph=False), LogVars()],
    verbose=2,
)

# what TensorBoard would draw
curves = {}
for path in sorted(glob.glob("logs/**/events*", recursive=True)):
    run = os.path.basename(os.path.dirname(path))
    for event in tf.compat.v1.train.summary_iterator(path):
        for v in event.summary.value:
            if v.HasField("tensor") and v.tag in ("epoch_loss", "batch_loss", "sigma0", "sigma1", "epoch_learning_rate"):
                curves.setdefault(f"{run}_{v.tag}", {})[event.step] = float(tf.make_ndarray(v.tensor))

res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
for tag, points in curves.items():
    res[f"tb_{tag}"] = np.array(sorted(points.items()))
res["pred"] = model.predict([x[:20], y1[:20], y2[:20]], verbose=0)
np.savez("result.npz", **res)
