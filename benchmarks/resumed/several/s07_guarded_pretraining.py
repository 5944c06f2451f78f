# Pre-training of an autoencoder only if its weight file is not there yet (else load_weights), then the main fit on the encoder.
import os

import keras
import numpy as np
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(31)

rng = np.random.default_rng(0)
latent = rng.normal(size=(800, 4))
mix = rng.normal(size=(4, 40))
X = (np.tanh(latent @ mix) + 0.1 * rng.normal(size=(800, 40))).astype("float32")
y = (latent[:, 0] * latent[:, 1] > 0).astype("float32")
X_unlab, X_train, y_train, X_test, y_test = X[:500], X[500:700], y[500:700], X[700:], y[700:]

inp = keras.Input((40,), name="x")
h = layers.GaussianNoise(0.1)(inp)
h = layers.Dense(32, activation="relu", name="enc1")(h)
code = layers.Dense(8, activation="relu", name="enc2")(h)
d = layers.Dense(32, activation="relu", name="dec1")(code)
rec = layers.Dense(40, name="dec2")(d)
autoencoder = keras.Model(inp, rec, name="autoencoder")
encoder = keras.Model(inp, code, name="encoder")
autoencoder.compile(optimizer="adam", loss="mse")

WEIGHTS = "ae.weights.h5"
if not os.path.exists(WEIGHTS):
    print("no weights found, pre-training")
    ae_hist = autoencoder.fit(X_unlab, X_unlab, epochs=8, batch_size=50, validation_data=(X_test, X_test), verbose=2)
    autoencoder.save_weights(WEIGHTS)
    np.save("ae_loss.npy", np.array(ae_hist.history["val_loss"]))
else:
    print("loading", WEIGHTS)
    autoencoder.load_weights(WEIGHTS)

head = layers.Dense(16, activation="relu")(encoder.output)
head = layers.Dropout(0.3)(head)
clf = keras.Model(encoder.input, layers.Dense(1, activation="sigmoid")(head), name="classifier")
clf.compile(optimizer=keras.optimizers.Nadam(5e-3), loss="binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
hist = clf.fit(X_train, y_train, epochs=15, batch_size=20, validation_data=(X_test, y_test), verbose=2)

res = {f"ae{i}": w for i, w in enumerate(autoencoder.get_weights())}
res["ae_val_loss"] = np.load("ae_loss.npy")
res.update({f"clf{i}": np.asarray(v) for i, v in enumerate(clf.variables)})
res.update({f"clf_opt{i}": np.asarray(v) for i, v in enumerate(clf.optimizer.variables)})
res.update({"hist_" + k: np.array(v) for k, v in hist.history.items()})
res["codes"] = encoder.predict(X_test[:10], verbose=0)
res["proba"] = clf.predict(X_test[:10], verbose=0)
np.savez("result.npz", **res)
