"""Keras cannot tell whether a metric of one of several outputs should be high or low."""

# finds: monitor-without-direction
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 8)).astype("float32")
sign, size = (x[:, 0] > 0).astype("float32"), x[:, :1] * 2 + x[:, 1:2]
given = keras.Input((8,))
hidden = keras.layers.Dense(16, activation="relu")(given)
outputs = {
    "sign": keras.layers.Dense(1, activation="sigmoid", name="sign")(hidden),
    "size": keras.layers.Dense(1, name="size")(hidden),
}
model = keras.Model(given, outputs)
model.compile(
    "adam",
    loss={"sign": "binary_crossentropy", "size": "mse"},
    metrics={"sign": ["accuracy"], "size": ["mae"]},
)
stop = keras.callbacks.EarlyStopping("val_sign_accuracy", patience=2)  # WRONG
stop = keras.callbacks.EarlyStopping("val_sign_accuracy", mode="max", patience=2)  # RIGHT
model.fit(x, {"sign": sign, "size": size}, epochs=10, validation_split=0.2, callbacks=[stop])
