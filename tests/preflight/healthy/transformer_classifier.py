"""A transformer block for text classification, with its own layers."""

import keras
import numpy as np
from keras import layers, ops


class TransformerBlock(layers.Layer):
    def __init__(self, width, heads, inner, rate=0.1):
        super().__init__()
        self.attention = layers.MultiHeadAttention(num_heads=heads, key_dim=width)
        self.feed_forward = keras.Sequential([layers.Dense(inner, activation="relu"), layers.Dense(width)])
        self.norm1, self.norm2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.dropout1, self.dropout2 = layers.Dropout(rate), layers.Dropout(rate)

    def call(self, inputs, training=None):
        attended = self.dropout1(self.attention(inputs, inputs), training=training)
        out = self.norm1(inputs + attended)
        return self.norm2(out + self.dropout2(self.feed_forward(out), training=training))


class Embed(layers.Layer):
    def __init__(self, length, words, width):
        super().__init__()
        self.tokens = layers.Embedding(input_dim=words, output_dim=width)
        self.places = layers.Embedding(input_dim=length, output_dim=width)

    def call(self, x):
        return self.tokens(x) + self.places(ops.arange(0, ops.shape(x)[-1]))


rng = np.random.default_rng(0)
x_train, y_train = rng.integers(0, 5000, (800, 50)), rng.integers(0, 2, 800)
x_val, y_val = rng.integers(0, 5000, (200, 50)), rng.integers(0, 2, 200)
inputs = layers.Input(shape=(50,))
x = Embed(50, 5000, 32)(inputs)
x = TransformerBlock(32, 2, 32)(x)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dropout(0.1)(x)
x = layers.Dense(20, activation="relu")(x)
x = layers.Dropout(0.1)(x)
outputs = layers.Dense(2, activation="softmax")(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=2, validation_data=(x_val, y_val))
