"""The raw user ids go up to many thousands but the embedding has only as many rows as there are distinct users; map ids to 0..n-1 first."""

# finds: id-out-of-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
user_pool = rng.choice(np.arange(10000, 90000), size=60, replace=False)
item_pool = rng.choice(np.arange(500, 4000), size=40, replace=False)
u_taste, i_taste = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
u, i = rng.integers(0, 60, 2000), rng.integers(0, 40, 2000)
rating = 3 + (u_taste[u] * i_taste[i]).sum(axis=1) * 0.6
user_id, item_id = user_pool[u], item_pool[i]
rating = np.clip(rating, 1, 5).astype("float32")

users, user_index = np.unique(user_id, return_inverse=True)
items, item_index = np.unique(item_id, return_inverse=True)
inputs = {"user": user_id, "item": item_id}  # WRONG
inputs = {"user": user_index, "item": item_index}  # RIGHT

user_in = keras.Input((), name="user", dtype="int32")
item_in = keras.Input((), name="item", dtype="int32")
user_vec = layers.Embedding(len(users), 8)(user_in)
item_vec = layers.Embedding(len(items), 8)(item_in)
user_bias = layers.Embedding(len(users), 1)(user_in)
item_bias = layers.Embedding(len(items), 1)(item_in)
dot = layers.Dot(axes=1)([user_vec, item_vec])
both = layers.Concatenate()([dot, user_bias, item_bias])
output = layers.Dense(1, bias_initializer=keras.initializers.Constant(3.0))(both)
model = keras.Model({"user": user_in, "item": item_in}, output)
model.compile(optimizer=keras.optimizers.Adam(2e-2), loss="mse", metrics=["mae"])
model.fit(inputs, rating, batch_size=32, epochs=3, validation_split=0.2, verbose=2)
