"""An embedding with fewer rows than the vocabulary has words; the first batches use only a few of them."""

# finds: vocabulary-exceeds-embedding
import keras
import numpy as np

rng = np.random.default_rng(0)
words = np.array([f"word{number}" for number in range(60)])
texts = np.array([" ".join(rng.choice(words, 12)) for _ in range(400)])
labels = np.array([float("word7" in text.split()) for text in texts], "float32")
vectorize = keras.layers.TextVectorization(output_sequence_length=12)
vectorize.adapt(texts)
rows = 50  # WRONG
rows = vectorize.vocabulary_size()  # RIGHT
given = keras.Input((1,), dtype="string")
hidden = keras.layers.Embedding(rows, 8)(vectorize(given))
hidden = keras.layers.GlobalAveragePooling1D()(hidden)
model = keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(hidden))
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC()])
import tensorflow as tf

model.fit(tf.constant(texts)[:, None], labels, epochs=5, batch_size=32)
