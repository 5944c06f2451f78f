"""LearningRateScheduler sets the learning rate, which is not possible when the optimizer already has a schedule object; use one or the other."""

# finds: rate-set-twice

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(22)
rng = np.random.default_rng(22)
X = rng.normal(size=(800, 10)).astype("float32")
y = (np.abs(X[:, 0]) + X[:, 1] > 0.8).astype("float32")

schedule = keras.optimizers.schedules.ExponentialDecay(5e-3, decay_steps=100, decay_rate=0.9)  # WRONG
optimizer = keras.optimizers.Adam(learning_rate=schedule)  # WRONG
optimizer = keras.optimizers.Adam(learning_rate=5e-3)  # RIGHT

inputs = keras.Input((10,))
x = layers.Dense(32, activation="relu")(inputs)
x = layers.Dropout(0.1)(x)
x = layers.Dense(16, activation="relu")(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=optimizer, loss="binary_crossentropy", metrics=["accuracy"])
callbacks = [
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr if epoch < 1 else lr * 0.9),
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True),
]
model.fit(X, y, validation_split=0.2, epochs=3, batch_size=16, callbacks=callbacks, verbose=2)
