# Stratified folds with early stopping in each fold; the average of the stopped epochs is used for a final training on all data.
import os

import keras
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

SEED = 2024
if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2024)

X, y = make_classification(n_samples=700, n_features=20, n_informative=6, n_redundant=4,
                           n_classes=3, flip_y=0.08, random_state=SEED)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SEED)


def get_model(n_features, n_classes):
    inp = keras.layers.Input((n_features,))
    x = keras.layers.Dense(48, activation="swish")(inp)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.3)(x)
    x = keras.layers.Dense(24, activation="swish")(x)
    out = keras.layers.Dense(n_classes, activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


skf = StratifiedKFold(n_splits=4, shuffle=True, random_state=SEED)
stopped, fold_acc, test_preds, results = [], [], [], {}

for fold, (tr_idx, va_idx) in enumerate(skf.split(X_train, y_train), start=1):
    keras.backend.clear_session()
    sc = StandardScaler().fit(X_train[tr_idx])
    model = get_model(X.shape[1], 3)
    es = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True, verbose=1)
    rlr = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1)
    hist = model.fit(sc.transform(X_train[tr_idx]), y_train[tr_idx],
                     validation_data=(sc.transform(X_train[va_idx]), y_train[va_idx]),
                     epochs=12, batch_size=64, callbacks=[es, rlr], verbose=0)
    n_epochs = es.stopped_epoch if es.stopped_epoch > 0 else len(hist.history["loss"])
    stopped.append(n_epochs)
    _, acc = model.evaluate(sc.transform(X_train[va_idx]), y_train[va_idx], verbose=0)
    fold_acc.append(acc)
    test_preds.append(model.predict(sc.transform(X_test), verbose=0))
    print(f"fold {fold}: stopped after {n_epochs} epochs, acc={acc:.4f}")
    for k, v in hist.history.items():
        results[f"fold{fold}_{k}"] = np.array(v)
    results[f"fold{fold}_es"] = np.array([es.best, es.best_epoch, es.wait, es.stopped_epoch])
    for i, w in enumerate(model.get_weights()):
        results[f"fold{fold}_w{i}"] = w

final_epochs = int(round(np.mean(stopped)))
print("stopped epochs:", stopped, "-> final training for", final_epochs)

keras.backend.clear_session()
scaler = StandardScaler().fit(X_train)
final = get_model(X.shape[1], 3)
final_hist = final.fit(scaler.transform(X_train), y_train, epochs=final_epochs, batch_size=64, verbose=2)
print("test:", final.evaluate(scaler.transform(X_test), y_test, verbose=0))

results["stopped"] = np.array(stopped)
results["fold_acc"] = np.array(fold_acc)
results["blend"] = np.mean(test_preds, axis=0)
for k, v in final_hist.history.items():
    results["final_" + k] = np.array(v)
for i, v in enumerate(final.variables):
    results[f"final_var{i}"] = np.asarray(v)
for i, v in enumerate(final.optimizer.variables):
    results[f"final_opt{i}"] = np.asarray(v)
results["final_pred"] = final.predict(scaler.transform(X_test[:16]), verbose=0)
np.savez("result.npz", **results)
