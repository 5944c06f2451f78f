"""Collaborative filtering with embeddings and a subclassed model."""

import keras
import numpy as np
from keras import layers, ops


class RecommenderNet(keras.Model):
    def __init__(self, users, movies, width, **kwargs):
        super().__init__(**kwargs)
        self.user = layers.Embedding(
            users, width, embeddings_initializer="he_normal", embeddings_regularizer=keras.regularizers.l2(1e-6)
        )
        self.user_bias = layers.Embedding(users, 1)
        self.movie = layers.Embedding(
            movies, width, embeddings_initializer="he_normal", embeddings_regularizer=keras.regularizers.l2(1e-6)
        )
        self.movie_bias = layers.Embedding(movies, 1)

    def call(self, inputs):
        user, movie = self.user(inputs[:, 0]), self.movie(inputs[:, 1])
        product = ops.sum(user * movie, axis=1, keepdims=True)
        return ops.nn.sigmoid(product + self.user_bias(inputs[:, 0]) + self.movie_bias(inputs[:, 1]))


rng = np.random.default_rng(0)
x = np.stack([rng.integers(0, 600, 5000), rng.integers(0, 3000, 5000)], axis=1)
y = rng.choice(np.arange(0.5, 5.5, 0.5), 5000)
y = ((y - y.min()) / (y.max() - y.min())).astype("float32")
model = RecommenderNet(600, 3000, 50)
model.compile(loss=keras.losses.BinaryCrossentropy(), optimizer=keras.optimizers.Adam(learning_rate=0.001))
model.fit(x=x[:4500], y=y[:4500], batch_size=64, epochs=5, validation_data=(x[4500:], y[4500:]))
