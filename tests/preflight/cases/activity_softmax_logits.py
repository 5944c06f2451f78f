"""The model already ends in softmax, yet from_logits=True tells the loss that it gets raw scores; drop one of the two."""

# finds: probabilities-as-logits

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(9)
rng = np.random.default_rng(9)
n, steps = 1000, 40
kind = rng.integers(0, 4, n)
t = np.arange(steps)
freq = np.array([0.15, 0.4, 0.8, 1.4])[kind][:, None]
phase = rng.uniform(0, 6.28, (n, 1))
acc = np.stack([np.sin(freq * t + phase), np.cos(freq * t + phase)], axis=-1)
acc = (acc + rng.normal(0, 0.4, acc.shape)).astype("float32")

model = keras.Sequential([
    keras.Input((steps, 2)),
    layers.Conv1D(32, 7, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(32, 5, activation="relu"),
    layers.GlobalAveragePooling1D(),
    layers.Dense(4, activation="softmax"),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # WRONG
loss = keras.losses.SparseCategoricalCrossentropy()  # RIGHT
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss=loss, metrics=["accuracy"])
model.fit(acc[:800], kind[:800], epochs=3, batch_size=32, validation_data=(acc[800:900], kind[800:900]), verbose=2)
print("test", model.evaluate(acc[900:], kind[900:], verbose=0))
