"""Healthy: rare positives handled by class weights, an output bias set to the base rate, and AUC metrics."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(105)
rng = np.random.default_rng(105)
n = 2000
X = rng.normal(size=(n, 10)).astype("float32")
y = (X[:, 0] + X[:, 1] + rng.normal(0, 0.4, n) > 2.2).astype("int32")
order = rng.permutation(n)
train, val, test = order[:1400], order[1400:1700], order[1700:]
pos = y[train].sum()
neg = len(train) - pos
weights = {0: len(train) / (2 * neg), 1: len(train) / (2 * pos)}

model = keras.Sequential([
    keras.Input((10,)),
    layers.Dense(32, activation="relu"),
    layers.Dropout(0.3),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss="binary_crossentropy",
    metrics=[keras.metrics.AUC(name="roc"), keras.metrics.AUC(curve="PR", name="pr"), keras.metrics.Recall(name="recall")],
)
model.fit(X[train], y[train], validation_data=(X[val], y[val]), class_weight=weights, batch_size=32, epochs=3, verbose=2)
print(model.evaluate(X[test], y[test], return_dict=True, verbose=0))
