"""The ways in which scripts call fit more than once: `many_fits.py OUT.npz`."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(5)
tf.config.experimental.enable_op_determinism()
rng = np.random.default_rng(0)
x = rng.normal(size=(160, 8)).astype("float32")
y = rng.integers(0, 3, 160)
out = {}


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


def new_model(units=8, rate=0.01):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(units, "relu"), keras.layers.Dense(3)])
    compile_anew(model, rate)
    return model


def compile_anew(model, rate):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])


def fit(name, model, rows=slice(None), callbacks=(), epochs=2):
    history = model.fit(x[rows], y[rows], batch_size=16, epochs=epochs, verbose=0, callbacks=[Pace(), *callbacks])
    keep(name, model, history)
    return history


def keep(name, model, history):
    for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
        out[f"{name}/{index}"] = np.asarray(variable)
    out[f"{name}/loss"] = np.asarray(history.history["loss"])


class FitWithin(keras.callbacks.Callback):
    """Trains a small model at the end of every epoch, as a learned metric would."""

    def __init__(self):
        super().__init__()
        self.inner = new_model(4)

    def on_epoch_end(self, epoch, logs=None):
        self.inner.fit(x[:32], y[:32], batch_size=16, epochs=1, verbose=0)


class Fails(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 2:
            raise RuntimeError("enough")


# Fine-tuning: first the head, then everything, with a new optimizer.
model = new_model()
model.layers[0].trainable = False
compile_anew(model, 0.05)
fit("head", model)
model.layers[0].trainable = True
compile_anew(model, 0.001)
fit("all", model)

# A fit that fails, which the script handles.
try:
    fit("failed", new_model(), callbacks=[Fails()], epochs=4)
except RuntimeError as error:
    print("caught", error)

# Cross-validation.
for fold in range(3):
    fit(f"fold{fold}", new_model(), rows=np.arange(160) % 3 != fold)

# A search over five settings.
losses = {}
for units in (2, 4, 6, 8, 10):
    losses[units] = fit(f"trial{units}", new_model(units)).history["loss"][-1]
best = min(losses, key=losses.get)

# A fit inside a fit, without its own checkpoint.
within = FitWithin()
fit("outer", new_model(best), callbacks=[within], epochs=3)
out["inner/count"] = np.asarray(within.inner.optimizer.iterations)
print("best", best)
np.savez(sys.argv[1], **out)
