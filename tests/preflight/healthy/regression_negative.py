"""Healthy: regression on standardized (partly negative) targets with a linear output and Huber loss."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(104)
rng = np.random.default_rng(104)
temp = rng.normal(-5, 12, 1500)
wind = rng.gamma(2, 3, 1500)
chill = 13.1 + 0.62 * temp - 11.4 * wind ** 0.16 + 0.4 * temp * wind ** 0.16 + rng.normal(0, 0.5, 1500)
X = np.stack([temp, wind], 1).astype("float32")
train, test = slice(0, 1200), slice(1200, None)
mu, sd = chill[train].mean(), chill[train].std()
y = ((chill - mu) / sd).astype("float32")

norm = layers.Normalization()
norm.adapt(X[train])
model = keras.Sequential([
    keras.Input((2,)),
    norm,
    layers.Dense(32, activation="swish"),
    layers.Dense(32, activation="swish"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.AdamW(3e-3, weight_decay=1e-4), loss=keras.losses.Huber(), metrics=["mae", keras.metrics.R2Score(name="r2")])
model.fit(X[train], y[train, None], validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("test", model.evaluate(X[test], y[test, None], return_dict=True, verbose=0))
