"""Inputs and targets as dictionaries of arrays, split by Keras."""

import keras
import numpy as np

rng = np.random.default_rng(0)
size, colour = rng.normal(size=(500, 4)).astype("float32"), rng.integers(0, 5, (500, 1))
price = (size @ rng.normal(size=(4, 1)) + colour / 2).astype("float32")
sold = (price[:, 0] > 1).astype("float32")
inputs = {"size": keras.Input((4,), name="size"), "colour": keras.Input((1,), dtype="int32", name="colour")}
embedded = keras.layers.Flatten()(keras.layers.Embedding(5, 3)(inputs["colour"]))
hidden = keras.layers.Dense(16, activation="relu")(keras.layers.Concatenate()([inputs["size"], embedded]))
outputs = {
    "price": keras.layers.Dense(1, name="price")(hidden),
    "sold": keras.layers.Dense(1, activation="sigmoid", name="sold")(hidden),
}
model = keras.Model(inputs, outputs)
model.compile("adam", {"price": "mse", "sold": "binary_crossentropy"}, metrics={"price": ["mae"], "sold": ["accuracy"]})
stop = keras.callbacks.EarlyStopping("val_sold_accuracy", mode="max", patience=3)
model.fit(
    {"size": size, "colour": colour},
    {"price": price, "sold": sold},
    epochs=10,
    validation_split=0.2,
    callbacks=[stop],
)
