"""The custom metric does nothing in reset_state, so it keeps counting across all epochs, training and validation."""

# finds: metric-not-reset

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(51)
rng = np.random.default_rng(51)
X = rng.normal(size=(1500, 10)).astype("float32")
y = (X[:, 0] - X[:, 1] + rng.normal(0, 0.3, 1500) > 0).astype("float32").reshape(-1, 1)

class Specificity(keras.metrics.Metric):
    def __init__(self, name="specificity"):
        super().__init__(name=name)
        self.tn = self.add_weight(name="tn", initializer="zeros")
        self.n = self.add_weight(name="n", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        negative = 1.0 - ops.cast(y_true, "float32")
        called_negative = ops.cast(y_pred < 0.5, "float32")
        self.tn.assign(self.tn + ops.sum(negative * called_negative))
        self.n.assign(self.n + ops.sum(negative))

    def result(self):
        return self.tn / ops.maximum(self.n, 1.0)

    def reset_state(self):
        pass  # WRONG
        self.tn.assign(0.0)  # RIGHT
        self.n.assign(0.0)  # RIGHT


model = keras.Sequential([
    keras.Input((10,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["accuracy", Specificity()])
model.fit(X[:1200], y[:1200], validation_data=(X[1200:], y[1200:]), epochs=3, batch_size=24, verbose=2)
