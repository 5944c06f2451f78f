"""The balanced weights are an array, as from compute_class_weight, but class_weight of fit must be a dictionary {class: weight}."""

# finds: step-fails

import numpy as np
import keras

keras.utils.set_random_seed(34)
rng = np.random.default_rng(34)
n = 2000
x = rng.normal(size=(n, 12)).astype("float32")
y = (x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=n) > 1.9).astype("int32")
x_train, y_train = x[:1600], y[:1600]
x_val, y_val = x[1600:], y[1600:]

weights = len(y_train) / (2 * np.bincount(y_train))
weights = dict(enumerate(weights))  # RIGHT

model = keras.Sequential([
    keras.layers.Input(shape=(12,)),
    keras.layers.Dense(24, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="binary_crossentropy",
              metrics=[keras.metrics.AUC(name="auc"), keras.metrics.Recall(name="recall")])
model.fit(x_train, y_train, batch_size=32, epochs=3, class_weight=weights, validation_data=(x_val, y_val), verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
