"""A small version of every part of Keras that oomph deals with: `varied.py OUT.npz`."""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x[:, :1] > 0).astype("float32")


class Pause(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return x[index * 16 : index * 16 + 16], y[index * 16 : index * 16 + 16]


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.BatchNormalization()])
model.add(keras.layers.Dropout(0.2))
model.add(keras.layers.Dense(1, "sigmoid"))
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
callbacks = [keras.callbacks.EarlyStopping("loss", patience=2), keras.callbacks.ReduceLROnPlateau("loss")]
more = {"validation_data": (x, y), "callbacks": callbacks}
losses = model.fit(x, y, batch_size=16, epochs=2, verbose=0, **more).history["loss"]
losses += model.fit(x, y, epochs=2, steps_per_epoch=2, verbose=0).history["loss"]
losses += [*model.train_on_batch(x, y), *model.evaluate(x, y, verbose=0), *model.test_on_batch(x, y)]
outputs = model.predict(x, verbose=0)
np.savez(sys.argv[1], np.array(losses), outputs, *model.get_weights())
print("done")
