# Optuna study with a pruning callback, the best trial is trained again; the study sits in an SQLite file.
import os

import keras
import numpy as np
import optuna
from optuna_integration import KerasPruningCallback

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(5)

n = 480
X = np.random.uniform(-2, 2, size=(n, 10))
y = (np.sin(X[:, 0]) * X[:, 1] + X[:, 2] ** 2 > 1).astype("float32")
X_train, X_valid = X[:360], X[360:]
y_train, y_valid = y[:360], y[360:]
curves = []


def create_model(trial):
    model = keras.Sequential([keras.Input((10,))])
    for i in range(trial.suggest_int("n_layers", 1, 3)):
        model.add(keras.layers.Dense(trial.suggest_int(f"units_l{i}", 8, 48, log=True), activation="relu"))
        model.add(keras.layers.Dropout(trial.suggest_float(f"dropout_l{i}", 0.0, 0.4)))
    model.add(keras.layers.Dense(1, activation="sigmoid"))
    lr = trial.suggest_float("lr", 1e-4, 3e-2, log=True)
    model.compile(optimizer=keras.optimizers.Adam(lr), loss="binary_crossentropy", metrics=["accuracy"])
    return model


def objective(trial):
    keras.backend.clear_session()
    model = create_model(trial)
    cb = keras.callbacks.History()
    try:
        model.fit(X_train, y_train, validation_data=(X_valid, y_valid), epochs=6, batch_size=60,
                  callbacks=[KerasPruningCallback(trial, "val_accuracy")], verbose=0)
    finally:
        curves.append(list(model.history.history.get("val_accuracy", [])))
    return model.evaluate(X_valid, y_valid, verbose=0)[1]


study = optuna.create_study(
    study_name="demo",
    storage="sqlite:///study.db",
    load_if_exists=True,
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=1, n_startup_trials=4),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=1),
)
study.optimize(objective, n_trials=5)

pruned = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.PRUNED])
complete = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
print("finished", len(study.trials), "pruned", len(pruned), "complete", len(complete))
print("best", study.best_trial.value, study.best_trial.params)

keras.backend.clear_session()
best = create_model(study.best_trial)
hist = best.fit(X, y, epochs=8, batch_size=60, verbose=2)

d = {}
d["n_trials"] = np.array([len(study.trials), len(pruned), len(complete)])
d["values"] = np.array([np.nan if t.value is None else t.value for t in study.trials])
d["states"] = np.array([int(t.state) for t in study.trials])
d["lrs"] = np.array([t.params["lr"] for t in study.trials])
for i, c in enumerate(curves):
    d[f"curve{i}"] = np.array(c)
for t in study.trials:
    d[f"intermediate{t.number}"] = np.array([t.intermediate_values[k] for k in sorted(t.intermediate_values)])
for k, v in hist.history.items():
    d["best_" + k] = np.array(v)
for i, v in enumerate(best.variables):
    d[f"best_var{i}"] = np.asarray(v)
for i, v in enumerate(best.optimizer.variables):
    d[f"best_opt{i}"] = np.asarray(v)
d["pred"] = best.predict(X[:10], verbose=0)
np.savez("result.npz", **d)
