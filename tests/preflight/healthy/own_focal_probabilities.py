# Custom losses on probabilities, labels of one or several classes, validation data with gaps as in training.
import keras
import numpy as np


def focal(y_true, y_pred, gamma=2.0):
    y_pred = keras.ops.clip(y_pred, 1e-6, 1 - 1e-6)
    right = keras.ops.where(y_true > 0.5, y_pred, 1 - y_pred)
    return keras.ops.mean(-((1 - right) ** gamma) * keras.ops.log(right), axis=-1)


rng = np.random.default_rng(1)
notes = rng.normal(size=(600, 10)).astype("float32")
notes[rng.uniform(size=notes.shape) < 0.02] = np.nan
filled = np.nan_to_num(notes)
tags = np.stack([filled[:, 0] > 0, filled[:, 1] > 0.5, filled[:, 2] + filled[:, 3] > 0], axis=1).astype("float32")
hidden = keras.layers.Dense(24, activation="relu")
model = keras.Sequential([keras.Input((10,)), hidden, keras.layers.Dense(3, activation="sigmoid")])
model.compile("adam", focal, metrics=[keras.metrics.BinaryAccuracy()])
model.fit(filled[:500], tags[:500], validation_data=(filled[500:], tags[500:]), epochs=30, batch_size=32, verbose=0)
