# KerasTuner RandomSearch over width, dropout and learning rate, then the best hyper-parameters are trained on all data.
import os

import keras
import keras_tuner as kt
import numpy as np
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(11)

rng = np.random.default_rng(0)
x = rng.normal(size=(640, 8, 8, 1)).astype("float32")
y = (x[:, 2:6, 2:6, 0].mean(axis=(1, 2)) > 0).astype("int32") + (x[:, 0, 0, 0] > 0.7).astype("int32")
x_train, y_train = x[:512], y[:512]
x_val, y_val = x[512:], y[512:]


def build_model(hp):
    model = keras.Sequential()
    model.add(keras.Input((8, 8, 1)))
    model.add(layers.Flatten())
    for i in range(hp.Int("n_layers", 1, 2)):
        model.add(layers.Dense(hp.Int(f"units_{i}", 16, 64, step=16), activation="relu"))
        if hp.Boolean("dropout"):
            model.add(layers.Dropout(0.25))
    model.add(layers.Dense(3, activation="softmax"))
    model.compile(
        optimizer=keras.optimizers.Adam(hp.Float("lr", 1e-4, 1e-2, sampling="log")),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


tuner = kt.RandomSearch(
    build_model,
    objective="val_accuracy",
    max_trials=5,
    executions_per_trial=1,
    directory="tuning",
    project_name="random",
)
tuner.search_space_summary()
tuner.search(x_train, y_train, epochs=4, batch_size=64, validation_data=(x_val, y_val), verbose=2)
tuner.results_summary()

best_hp = tuner.get_best_hyperparameters()[0]
print(best_hp.values)

model = tuner.hypermodel.build(best_hp)
x_all, y_all = np.concatenate([x_train, x_val]), np.concatenate([y_train, y_val])
history = model.fit(x_all, y_all, epochs=6, batch_size=64, verbose=2)

out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({"hist_" + k: np.array(v) for k, v in history.history.items()})
trials = sorted(tuner.oracle.trials.items())
out["trial_scores"] = np.array([t.score for _, t in trials])
out["trial_best_step"] = np.array([t.best_step for _, t in trials])
out["trial_lr"] = np.array([t.hyperparameters.get("lr") for _, t in trials])
out["trial_units"] = np.array([t.hyperparameters.get("units_0") for _, t in trials])
best_search_model = tuner.get_best_models(1)[0]
out.update({f"search_w{i}": w for i, w in enumerate(best_search_model.get_weights())})
out["pred"] = model.predict(x_val[:20], verbose=0)
np.savez("result.npz", **out)
