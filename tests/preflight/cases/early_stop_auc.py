"""Early stopping with mode='min' on an AUC stops as soon as the AUC improves and restores the worst weights."""

# finds: monitor-direction

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(25)
rng = np.random.default_rng(25)
X = rng.normal(size=(2000, 15)).astype("float32")
risk = X[:, 0] * X[:, 1] + X[:, 2] - 0.5 * X[:, 3] + rng.normal(0, 0.3, 2000)
y = (risk > 0.3).astype("float32")

model = keras.Sequential([
    keras.Input((15,)),
    layers.Dense(64, activation="relu"),
    layers.Dense(32, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss="binary_crossentropy",
    metrics=[keras.metrics.AUC(name="auc")],
)
mode = "min"  # WRONG
mode = "max"  # RIGHT
stop = keras.callbacks.EarlyStopping(monitor="val_auc", mode=mode, patience=1, restore_best_weights=True)
history = model.fit(X[:1600], y[:1600], validation_split=0.2, epochs=4, batch_size=32, callbacks=[stop], verbose=2)
print("epochs run:", len(history.history["loss"]), "test:", model.evaluate(X[1600:], y[1600:], verbose=0))
