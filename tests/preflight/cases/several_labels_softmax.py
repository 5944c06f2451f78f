"""Several labels at a time on a softmax."""

# finds: not-one-hot
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, :4] > 0).astype("float32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(4, activation="softmax"),  # WRONG
        keras.layers.Dense(4, activation="sigmoid"),  # RIGHT
    ]
)
model.compile("adam", "categorical_crossentropy")  # WRONG
model.compile("adam", "binary_crossentropy")  # RIGHT
model.fit(x, y, epochs=5, validation_split=0.2)
