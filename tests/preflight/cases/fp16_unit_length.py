"""Under mixed_float16 the 1e-9 that should protect the division rounds to zero, so rows without any keyword give 0/0 = NaN; compute the norm in float32."""

# finds: loss-not-finite

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(52)
keras.mixed_precision.set_global_policy("mixed_float16")
rng = np.random.default_rng(52)
y = rng.integers(0, 2, 1200)
rate = np.where(y[:, None] == 1, np.linspace(0.02, 0.3, 12), np.linspace(0.3, 0.02, 12))
X = (rng.random((1200, 12)) < rate).astype("float32")
X = X[:, rng.permutation(12)]

class UnitLength(layers.Layer):
    def call(self, x):
        x = ops.cast(x, self.compute_dtype)  # WRONG
        x = ops.cast(x, "float32")  # RIGHT
        length = ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-9)
        return ops.cast(x / length, self.compute_dtype)


inputs = keras.Input((12,))
h = UnitLength()(inputs)
h = layers.Dense(32, activation="relu")(h)
h = layers.Dense(1)(h)
outputs = layers.Activation("sigmoid", dtype="float32")(h)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(X[:1000], y[:1000], validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print(model.evaluate(X[1000:], y[1000:], verbose=0))
