"""A cosine decay that ends after the first epoch."""

# finds: schedule-too-short
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
rate = keras.optimizers.schedules.CosineDecay(1e-3, 15)  # WRONG
rate = keras.optimizers.schedules.CosineDecay(1e-3, 15 * 20)  # RIGHT
model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
model.fit(x, y, epochs=20, validation_split=0.2)
