"""Each batch padded to its own longest row."""

# finds: varying-shapes
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
rows = [rng.integers(1, 500, n) for n in rng.integers(5, 200, 400)]
labels = rng.integers(0, 2, 400)
dataset = tf.data.Dataset.from_generator(
    lambda: zip(rows, labels), output_signature=(tf.TensorSpec((None,), tf.int64), tf.TensorSpec((), tf.int64))
)
dataset = dataset.padded_batch(16)  # WRONG
dataset = dataset.padded_batch(16, padded_shapes=((200,), ()))  # RIGHT
model = keras.Sequential(
    [
        keras.layers.Embedding(500, 8, mask_zero=True),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=2)
