"""The features are not scaled (some are in the thousands), so plain SGD blows up to inf or NaN within a few steps; standardize the inputs."""

# finds: feature-scale

import numpy as np
import keras

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)
n = 1000
temp = rng.uniform(2, 37, n)
vacuum = rng.uniform(25, 80, n)
pressure = rng.uniform(990, 1035, n)
flow = rng.uniform(3000, 9000, n)
y = 0.05 * (30 - temp) + 0.03 * (50 - vacuum) + 0.02 * (pressure - 1010) + flow / 6000 + rng.normal(0, 0.05, n)
X = np.column_stack([temp, vacuum, pressure, flow])
X_train, X_test, y_train, y_test = X[:800], X[800:], y[:800], y[800:]
mean, deviation = X_train.mean(axis=0), X_train.std(axis=0)
X_train, X_test = (X_train - mean) / deviation, (X_test - mean) / deviation  # RIGHT

model = keras.Sequential([
    keras.Input((4,)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.SGD(learning_rate=0.01), loss="mean_squared_error")
model.fit(X_train, y_train, epochs=3, batch_size=16, validation_split=0.1, verbose=2)
print("test mse", model.evaluate(X_test, y_test, verbose=0), "variance", y_test.var())
