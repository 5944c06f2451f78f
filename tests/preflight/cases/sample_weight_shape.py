"""One weight for each class instead of each sample."""

# finds: sample-weight-shape
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
weights = rng.random((600, 4)).astype("float32") + 0.5  # WRONG
weights = rng.random(600).astype("float32") + 0.5  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "categorical_crossentropy")
model.fit(x, keras.utils.to_categorical(y, 4), sample_weight=weights, epochs=3)
