"""The frequent class weighs more, and the labels are one-hot."""

# finds: class-weights
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(900, 5)).astype("float32")
classes = np.where(x[:, 0] > 1.2, 2, (x[:, 1] > 0).astype(int))
y = keras.utils.to_categorical(classes, 3)
model = keras.Sequential(
    [keras.Input((5,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3, activation="softmax")]
)
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
weights = {0: 4.0, 1: 4.0, 2: 1.0}  # WRONG
weights = {0: 1.0, 1: 1.0, 2: 4.0}  # RIGHT
model.fit(x, y, epochs=5, class_weight=weights, validation_split=0.2)
