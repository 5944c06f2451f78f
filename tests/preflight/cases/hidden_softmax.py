# finds: hidden-softmax
import keras
import numpy as np

rng = np.random.default_rng(13)
points = rng.normal(size=(600, 8)).astype("float32")
side = (points[:, 0] * points[:, 1] > 0).astype("int32")
last = keras.layers.Dense(1, activation="sigmoid")
hidden = keras.layers.Dense(64, activation="softmax")  # WRONG
hidden = keras.layers.Dense(64, activation="relu")  # RIGHT
model = keras.Sequential([keras.Input((8,)), hidden, keras.layers.Dropout(0.1), last])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(points, side, epochs=10, verbose=0)
