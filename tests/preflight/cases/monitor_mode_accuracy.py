"""Early stopping that stops when accuracy rises."""

# finds: monitor-direction
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="min", patience=3)  # WRONG
stop = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="max", patience=3)  # RIGHT
model.fit(x, y, epochs=10, callbacks=[stop], validation_split=0.2)
