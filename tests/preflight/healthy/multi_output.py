"""Three inputs and two outputs, as in the guide to the functional API."""

import keras
import numpy as np
from keras import layers

title = keras.Input(shape=(None,), name="title")
body = keras.Input(shape=(None,), name="body")
tags = keras.Input(shape=(12,), name="tags")
x = layers.concatenate(
    [layers.LSTM(32)(layers.Embedding(1000, 16)(title)), layers.LSTM(16)(layers.Embedding(1000, 16)(body)), tags]
)
priority = layers.Dense(1, name="priority")(x)
department = layers.Dense(4, name="department")(x)
model = keras.Model([title, body, tags], {"priority": priority, "department": department})
model.compile(
    optimizer=keras.optimizers.RMSprop(1e-3),
    loss={
        "priority": keras.losses.BinaryCrossentropy(from_logits=True),
        "department": keras.losses.CategoricalCrossentropy(from_logits=True),
    },
    loss_weights={"priority": 1.0, "department": 0.2},
)
rng = np.random.default_rng(0)
model.fit(
    {
        "title": rng.integers(0, 1000, (320, 10)),
        "body": rng.integers(0, 1000, (320, 40)),
        "tags": rng.integers(0, 2, (320, 12)).astype("float32"),
    },
    {"priority": rng.integers(0, 2, (320, 1)).astype("float32"), "department": np.eye(4)[rng.integers(0, 4, 320)]},
    epochs=2,
    batch_size=32,
)
