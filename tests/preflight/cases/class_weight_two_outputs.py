"""class_weight works only for models with a single output; with two outputs, pass sample weights for each output."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(66)
rng = np.random.default_rng(66)
X = rng.normal(size=(1500, 12)).astype("float32")
defect = (X[:, 0] + 0.5 * X[:, 1] > 1.2).astype("float32").reshape(-1, 1)
kind = np.argmax(X[:, 2:5], axis=1)

weights = {0: 1.0, 1: float((defect == 0).sum() / (defect == 1).sum())}
inputs = keras.Input((12,), name="signal")
h = layers.Dense(48, activation="relu")(inputs)
h = layers.Dense(32, activation="relu")(h)
out_defect = layers.Dense(1, activation="sigmoid", name="defect")(h)
out_kind = layers.Dense(3, activation="softmax", name="kind")(h)
model = keras.Model(inputs, [out_defect, out_kind])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=["binary_crossentropy", "sparse_categorical_crossentropy"],
    metrics=[[keras.metrics.AUC(name="auc")], ["accuracy"]],
)
options = dict(class_weight=weights)  # WRONG
options = dict(sample_weight=[np.where(defect[:1200, 0] == 1, weights[1], weights[0]), np.ones(1200)])  # RIGHT
model.fit(
    X[:1200], [defect[:1200], kind[:1200]],
    validation_data=(X[1200:], [defect[1200:], kind[1200:]]),
    epochs=3, batch_size=16, verbose=2, **options,
)
