"""An L2 factor of 10."""

# finds: regulariser-dominates
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
factor = 10.0  # WRONG
factor = 1e-4  # RIGHT
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(64, activation="relu", kernel_regularizer=keras.regularizers.L2(factor)),
        keras.layers.Dense(4, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
