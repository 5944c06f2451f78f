"""Two classes, and a softmax over a single unit."""

# finds: softmax-of-one-unit
import keras
import numpy as np

rng = np.random.default_rng(0)
customers = rng.normal(size=(600, 6)).astype("float32")
churned = (customers[:, 0] > customers[:, 1]).astype("int32")
model = keras.Sequential(
    [
        keras.Input((6,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="softmax"),  # WRONG
        keras.layers.Dense(1, activation="sigmoid"),  # RIGHT
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(customers, churned, epochs=5, validation_split=0.2)
