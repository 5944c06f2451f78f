"""The generator ends after one pass over the data, so there is nothing left for the second and third epoch."""

# finds: runs-out-of-data

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(72)
rng = np.random.default_rng(72)
X = rng.uniform(-1, 1, (800, 6)).astype("float32")
y = (np.hypot(X[:, 0], X[:, 1]) < 0.8).astype("float32").reshape(-1, 1)
X_train, y_train, X_val, y_val = X[:640], y[:640], X[640:], y[640:]
batch, epochs = 16, 3

def batches(rounds):
    for _ in range(rounds):
        order = rng.permutation(len(X_train))
        for start in range(0, len(order), batch):
            rows = order[start:start + batch]
            yield X_train[rows], y_train[rows]


rounds = 1  # WRONG
rounds = epochs  # RIGHT
model = keras.Sequential([
    keras.Input((6,)),
    layers.Dense(64, activation="relu"),
    layers.Dense(32, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(batches(rounds), steps_per_epoch=640 // batch, epochs=epochs, validation_data=(X_val, y_val), verbose=2)
print("epochs:", len(history.history["loss"]), "steps:", int(model.optimizer.iterations.numpy()))
