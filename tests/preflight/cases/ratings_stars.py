"""The output is a sigmoid (0..1) but the ratings are 1 to 5 stars, so the model can never predict more than 1."""

# finds: bounded-output

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
n_users, n_movies = 50, 30
user = rng.integers(0, n_users, 2000)
movie = rng.integers(0, n_movies, 2000)
quality, mood = rng.normal(0, 1, n_movies), rng.normal(0, 0.5, n_users)
stars = np.clip(np.round(3.2 + quality[movie] + mood[user]), 1, 5).astype("float32")
train, test = slice(0, 1600), slice(1600, None)

class Recommender(keras.Model):
    def __init__(self):
        super().__init__()
        self.users = layers.Embedding(n_users, 8)
        self.movies = layers.Embedding(n_movies, 8)
        self.hidden = layers.Dense(16, activation="relu")
        self.out = layers.Dense(1, activation="sigmoid")  # WRONG
        self.out = layers.Dense(1, bias_initializer=keras.initializers.Constant(3.0))  # RIGHT

    def call(self, inputs):
        ids = [inputs[:, 0], inputs[:, 1]]
        x = keras.ops.concatenate([self.users(ids[0]), self.movies(ids[1])], axis=-1)
        return self.out(self.hidden(x))


pairs = np.stack([user, movie], axis=1).astype("int32")
model = Recommender()
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.fit(pairs[train], stars[train], epochs=3, batch_size=16, validation_split=0.1, verbose=2)
print("test mse, mae:", model.evaluate(pairs[test], stars[test], verbose=0))
