"""The TextVectorization layer was never adapted, so its vocabulary is empty and every word becomes the unknown token."""

# finds: data-raise

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
good = ["great", "lovely", "superb", "moving", "funny"]
bad = ["awful", "boring", "weak", "terrible", "dull"]
filler = ["the", "film", "was", "actor", "plot", "scene", "a", "story", "music", "with"]

def review(label):
    words = list(rng.choice(filler, 8)) + list(rng.choice(good if label else bad, 3))
    rng.shuffle(words)
    return " ".join(words)

labels = rng.integers(0, 2, 1200)
texts = np.array([review(l) for l in labels])
x_train, y_train, x_val, y_val = texts[:1000], labels[:1000], texts[1000:], labels[1000:]

vectorize = layers.TextVectorization(max_tokens=500, output_sequence_length=12)
vectorize.adapt(x_train)  # RIGHT
vectorize.build((None,))  # WRONG

def prepare(x, y, shuffle=False):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if shuffle:
        ds = ds.shuffle(len(x))
    return ds.batch(32).map(lambda t, l: (vectorize(t), l)).prefetch(2)

model = keras.Sequential([
    layers.Embedding(500, 16),
    layers.GlobalAveragePooling1D(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(prepare(x_train, y_train, True), validation_data=prepare(x_val, y_val), epochs=3, verbose=2)
