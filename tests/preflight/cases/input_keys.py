"""The dictionary and the model use different names for an input."""

# finds: input-keys
import keras
import numpy as np

rng = np.random.default_rng(0)
user, film = rng.integers(0, 50, 500), rng.integers(0, 80, 500)
stars = rng.random(500).astype("float32")
a, b = keras.Input((1,), name="user"), keras.Input((1,), name="movie")
x = keras.layers.concatenate(
    [keras.layers.Flatten()(keras.layers.Embedding(50, 8)(a)), keras.layers.Flatten()(keras.layers.Embedding(80, 8)(b))]
)
model = keras.Model({"user": a, "movie": b}, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "mse")
model.fit({"user": user, "film": film}, stars, epochs=3)  # WRONG
model.fit({"user": user, "movie": film}, stars, epochs=3)  # RIGHT
