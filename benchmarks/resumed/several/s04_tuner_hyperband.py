# KerasTuner Hyperband search with an early stopping callback, then the number of epochs of the best model is found and the model trained again.
import os

import keras_tuner as kt
import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(99)

x = tf.random.normal((500, 24)).numpy()
coef = tf.random.normal((24, 1)).numpy()
y = np.tanh(x @ coef)[:, 0] + 0.05 * np.random.randn(500)


class RegressionHyperModel(kt.HyperModel):
    def build(self, hp):
        inputs = keras.Input((24,))
        h = keras.layers.Dense(hp.Choice("units", [8, 16, 32]), activation=hp.Choice("act", ["relu", "tanh"]))(inputs)
        if hp.Boolean("bn"):
            h = keras.layers.BatchNormalization()(h)
        h = keras.layers.Dense(8, activation="relu")(h)
        outputs = keras.layers.Dense(1)(h)
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.RMSprop(hp.Choice("lr", [1e-2, 3e-3, 1e-3])), loss="mse", metrics=["mae"])
        return model

    def fit(self, hp, model, *args, **kwargs):
        return model.fit(*args, batch_size=hp.Choice("batch_size", [50, 100]), **kwargs)


tuner = kt.Hyperband(
    RegressionHyperModel(),
    objective=kt.Objective("val_loss", direction="min"),
    max_epochs=4,
    factor=4,
    seed=42,
    directory="hyperband",
    project_name="reg",
    overwrite=False,
)
stop_early = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)
tuner.search(x, y, epochs=5, validation_split=0.2, callbacks=[stop_early], verbose=2)

best_hps = tuner.get_best_hyperparameters(num_trials=1)[0]
print("best:", best_hps.values)

model = tuner.hypermodel.build(best_hps)
history = model.fit(x, y, epochs=8, validation_split=0.2, verbose=0)
val = history.history["val_loss"]
best_epoch = val.index(min(val)) + 1
print("best epoch:", best_epoch)

hypermodel = tuner.hypermodel.build(best_hps)
h2 = hypermodel.fit(x, y, epochs=best_epoch, verbose=0)

res = {"best_epoch": np.array(best_epoch), "pred": hypermodel.predict(x[:25], verbose=0)}
for name, m in (("probe", model), ("final", hypermodel)):
    for i, v in enumerate(m.variables):
        res[f"{name}_v{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        res[f"{name}_o{i}"] = np.asarray(v)
for k, v in history.history.items():
    res["probe_h_" + k] = np.array(v)
for k, v in h2.history.items():
    res["final_h_" + k] = np.array(v)
ids = sorted(tuner.oracle.trials)
res["scores"] = np.array([tuner.oracle.trials[t].score for t in ids])
res["epochs_of_trial"] = np.array([tuner.oracle.trials[t].hyperparameters.values["tuner/epochs"] for t in ids])
res["bracket_of_trial"] = np.array([tuner.oracle.trials[t].hyperparameters.values["tuner/bracket"] for t in ids])
np.savez("result.npz", **res)
