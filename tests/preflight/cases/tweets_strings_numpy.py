"""The texts are passed to fit as a numpy array of strings, which Keras 3 cannot convert; pass a tf.data.Dataset or a tf.constant of strings."""

# finds: step-fails

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(49)
rng = np.random.default_rng(49)
topics = [["goal", "match", "coach", "league"], ["vote", "party", "law", "senate"], ["film", "song", "stage", "actor"]]
fill = ["today", "new", "the", "about", "from", "people", "big", "week"]
y = rng.integers(0, 3, 900)
texts = [" ".join(rng.permutation(list(rng.choice(fill, 5)) + list(rng.choice(topics[k], 2)))) for k in y]
texts = np.array(texts)
y_train, y_val = y[:700], y[700:]

vectorize = layers.TextVectorization(max_tokens=100, output_sequence_length=8)
vectorize.adapt(texts[:700])
x_train, x_val = texts[:700], texts[700:]
x_train, x_val = tf.constant(x_train), tf.constant(x_val)  # RIGHT

model = keras.Sequential([
    keras.Input(shape=(), dtype="string"),
    vectorize,
    layers.Embedding(100, 16),
    layers.GlobalAveragePooling1D(),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.02), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, validation_data=(x_val, y_val), epochs=3, batch_size=32, verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
