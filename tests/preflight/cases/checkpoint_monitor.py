"""The checkpoint watches val_acc but the metric is called val_accuracy, so save_best_only cannot work: every epoch overwrites the file and the best model is lost."""

# finds: monitor-missing

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(24)
rng = np.random.default_rng(24)
X = rng.normal(size=(1200, 3)).astype("float32")
cls = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype("int32")
X_train, X_test, y_train, y_test = X[:1000], X[1000:], cls[:1000], cls[1000:]

inputs = keras.Input((3,))
h = layers.Dense(64, activation="tanh")(inputs)
h = layers.Dense(64, activation="relu")(h)
outputs = layers.Dense(1)(h)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
)
path = os.path.join(tempfile.mkdtemp(), "best.keras")
watch = "val_acc"  # WRONG
watch = "val_accuracy"  # RIGHT
saver = keras.callbacks.ModelCheckpoint(path, monitor=watch, mode="max", save_best_only=True)
model.fit(X_train, y_train, validation_split=0.2, batch_size=16, epochs=3, callbacks=[saver], verbose=2)
best = keras.models.load_model(path)
print("best model on test:", best.evaluate(X_test, y_test, verbose=0))
