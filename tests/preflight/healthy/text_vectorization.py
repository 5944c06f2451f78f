"""Raw text through TextVectorization, in the pipeline."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(0)
words = np.array([f"word{n}" for n in range(500)])
texts = [" ".join(rng.choice(words, rng.integers(5, 40))) for _ in range(600)]
labels = rng.integers(0, 2, 600)
raw = tf.data.Dataset.from_tensor_slices((texts, labels)).shuffle(600, seed=1).batch(32)
vectorize = layers.TextVectorization(max_tokens=1000, output_mode="int", output_sequence_length=50)
vectorize.adapt(raw.map(lambda x, y: x))
train = raw.map(lambda text, label: (vectorize(tf.expand_dims(text, -1)), label)).cache().prefetch(10)
model = keras.Sequential(
    [
        keras.Input((50,), dtype="int64"),
        layers.Embedding(1000, 32),
        layers.Dropout(0.5),
        layers.Conv1D(32, 7, padding="valid", activation="relu", strides=3),
        layers.GlobalMaxPooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid", name="predictions"),
    ]
)
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(train, epochs=3)
