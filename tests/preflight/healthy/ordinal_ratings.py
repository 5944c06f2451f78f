"""Healthy: ordinal targets coded as cumulative 0/1 columns (grade > 0, > 1, ...), one sigmoid each."""
import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(114)
rng = np.random.default_rng(114)
X = rng.normal(size=(1800, 8)).astype("float32")
score = X[:, 0] + 0.7 * np.tanh(X[:, 1] * 2) + rng.normal(0, 0.2, 1800)
grade = np.digitize(score, [-1.2, -0.4, 0.4, 1.2])
Y = (grade[:, None] > np.arange(4)).astype("float32")


def grade_mae(y_true, y_pred):
    a = ops.sum(ops.cast(y_true > 0.5, "float32"), axis=-1)
    b = ops.sum(ops.cast(y_pred > 0.5, "float32"), axis=-1)
    return ops.abs(a - b)


inputs = keras.Input((8,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dense(16, activation="relu")(h)
model = keras.Model(inputs, layers.Dense(4, activation="sigmoid")(h))
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=[grade_mae])
model.fit(X[:1440], Y[:1440], validation_data=(X[1440:], Y[1440:]), epochs=3, batch_size=24, verbose=2)
print("exact grade:", np.mean((model.predict(X[1440:], verbose=0) > 0.5).sum(axis=1) == grade[1440:]))
