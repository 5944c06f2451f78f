"""EarlyStopping watches val_loss, but fit gets no validation data, so it only prints a warning and never stops."""

# finds: monitor-missing

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(61)
rng = np.random.default_rng(61)
tone = rng.integers(0, 3, 900)
t = np.linspace(0, 1, 50)
wave = np.sin(2 * np.pi * np.array([2, 4, 7])[tone][:, None] * t + rng.uniform(0, 6.28, (900, 1)))
wave = (wave + rng.normal(0, 0.3, wave.shape)).astype("float32")[..., None]

model = keras.Sequential([
    keras.Input((50, 1)),
    layers.Conv1D(16, 9, activation="relu"),
    layers.MaxPooling1D(3),
    layers.Conv1D(32, 5, activation="relu"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.004), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)]
model.fit(wave[:750], tone[:750], epochs=3, batch_size=25, callbacks=callbacks, verbose=2)  # WRONG
model.fit(wave[:750], tone[:750], epochs=3, batch_size=25, validation_split=0.2, callbacks=callbacks, verbose=2)  # RIGHT
print("test", model.evaluate(wave[750:], tone[750:], verbose=0))
