"""There is no Flatten or GlobalAveragePooling2D before the Dense layers, so the output is a map of predictions and not one per image."""

# finds: target-shape

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(14)
rng = np.random.default_rng(14)
n = 750
species = rng.integers(0, 3, n)
leaf = rng.uniform(0, 0.3, (n, 18, 18, 3)).astype("float32")
for k in range(n):
    if species[k] == 0:
        leaf[k, ::3] += 0.5
    elif species[k] == 1:
        leaf[k, :, ::3] += 0.5
    else:
        leaf[k, ::3, ::3] += 0.6
y = keras.utils.to_categorical(species, 3)

model = keras.Sequential([
    keras.Input((18, 18, 3)),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
])
model.add(layers.Flatten())  # RIGHT
model.add(layers.Dense(32, activation="relu"))
model.add(layers.Dense(3, activation="softmax"))
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
early = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
model.fit(leaf[:600], y[:600], epochs=3, batch_size=32, validation_split=0.2, callbacks=[early], verbose=2)
print("test", model.evaluate(leaf[600:], y[600:], verbose=0))
