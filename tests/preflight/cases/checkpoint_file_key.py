"""The file name of the checkpoint uses {val_acc}, but the logs only have val_accuracy, so saving fails at the end of the first epoch."""

# finds: checkpoint-file-key

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(43)
rng = np.random.default_rng(43)
x = rng.normal(size=(1200, 16)).astype("float32")
y = ((x[:, :4] ** 2).sum(axis=1) > 3.4).astype("int32")
x_train, y_train, x_val, y_val = x[:1000], y[:1000], x[1000:], y[1000:]

model = keras.Sequential()
model.add(keras.Input(shape=(16,)))
model.add(layers.Dense(64, activation="relu"))
model.add(layers.Dense(32, activation="relu"))
model.add(layers.Dense(2, activation="softmax"))
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

folder = tempfile.mkdtemp()
pattern = os.path.join(folder, "model-{epoch:02d}-{val_acc:.3f}.keras")  # WRONG
pattern = os.path.join(folder, "model-{epoch:02d}-{val_accuracy:.3f}.keras")  # RIGHT
checkpoint = keras.callbacks.ModelCheckpoint(pattern, monitor="val_accuracy", mode="max", save_best_only=True)
model.fit(x_train, y_train, epochs=3, batch_size=20, validation_data=(x_val, y_val), callbacks=[checkpoint], verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0), os.listdir(folder))
