"""Rare positives handled by a focal loss on logits, an initial output bias from the base rate and ranking metrics; early stopping maximizes PR-AUC."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(81)
rng = np.random.default_rng(81)
n = 2000
x = rng.normal(size=(n, 10)).astype("float32")
y = (x[:, 0] + x[:, 1] - x[:, 2] + 0.5 * rng.normal(size=n) > 2.6).astype("float32")[:, None]
order = rng.permutation(n)
train, val = order[:1500], order[1500:]
base_rate = y[train].mean()
bias = keras.initializers.Constant(float(np.log(base_rate / (1 - base_rate))))

inputs = keras.Input((10,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dropout(0.1)(h)
logits = layers.Dense(1, bias_initializer=bias)(h)
model = keras.Model(inputs, logits)
model.compile(
    optimizer=keras.optimizers.Adam(0.005),
    loss=keras.losses.BinaryFocalCrossentropy(apply_class_balancing=True, alpha=0.8, gamma=2.0, from_logits=True),
    metrics=[keras.metrics.AUC(curve="PR", from_logits=True, name="pr_auc"),
             keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")],
)
stop = keras.callbacks.EarlyStopping(monitor="val_pr_auc", mode="max", patience=2, restore_best_weights=True)
model.fit(x[train], y[train], epochs=3, batch_size=30, validation_data=(x[val], y[val]), callbacks=[stop], verbose=2)
print("rate", base_rate, "val", model.evaluate(x[val], y[val], return_dict=True, verbose=0))
