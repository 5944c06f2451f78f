"""The data is ordered by class and validation_split takes the last part unshuffled, so validation has a single class that training hardly sees; shuffle first."""

# finds: validation-lacks-classes

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(26)
rng = np.random.default_rng(26)
parts, labels = [], []
for k, freq in enumerate([0.3, 0.6, 1.0, 1.5]):
    t = np.arange(64)
    phase = rng.uniform(0, 6.28, (250, 1))
    parts.append(np.sin(freq * t + phase) + rng.normal(0, 0.3, (250, 64)))
    labels.append(np.full(250, k))
sound = np.concatenate(parts).astype("float32")[..., None]
label = np.concatenate(labels)
order = rng.permutation(len(sound))  # RIGHT
sound, label = sound[order], label[order]  # RIGHT

model = keras.Sequential([
    layers.Input((64, 1)),
    layers.Conv1D(32, 9, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(32, 5, activation="relu"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(4, activation="softmax"),
])
model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(sound, label, epochs=3, batch_size=20, validation_split=0.25, verbose=2)
print("val accuracy", history.history["val_accuracy"][-1])
