"""A schedule together with a callback that sets the rate."""

# finds: rate-set-twice
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
rate = keras.optimizers.schedules.ExponentialDecay(1e-3, 200, 0.9)  # WRONG
rate = 1e-3  # RIGHT
model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
model.fit(x, y, epochs=10, validation_split=0.2, callbacks=[keras.callbacks.ReduceLROnPlateau(patience=2)])
