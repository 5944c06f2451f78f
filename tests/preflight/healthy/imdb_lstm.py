"""Two bidirectional LSTMs on sequences of word ids."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
x_train = np.zeros((1000, 80), "int32")
for row, length in enumerate(rng.integers(10, 80, 1000)):
    x_train[row, -length:] = rng.integers(1, 20000, length)
y_train = rng.integers(0, 2, 1000)
inputs = keras.Input(shape=(None,), dtype="int32")
x = layers.Embedding(20000, 32)(inputs)
x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)
x = layers.Bidirectional(layers.LSTM(16))(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=2, validation_split=0.2)
