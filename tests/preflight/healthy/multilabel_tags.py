"""Healthy: multi-label tagging, one sigmoid per tag, several ones per row, text through TextVectorization in the pipeline."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(106)
rng = np.random.default_rng(106)
topics = {"sport": ["goal", "match", "team"], "money": ["bank", "price", "stock"], "food": ["bread", "soup", "spice"], "travel": ["train", "hotel", "flight"]}
other = [f"word{i}" for i in range(40)]
texts, tags = [], []
for _ in range(1600):
    on = rng.random(4) < 0.4
    words = list(rng.choice(other, 6))
    for flag, vocabulary in zip(on, topics.values()):
        words += list(rng.choice(vocabulary, 2)) if flag else []
    rng.shuffle(words)
    texts.append(" ".join(words))
    tags.append(on.astype("float32"))
texts, tags = np.array(texts), np.array(tags)

vectorize = layers.TextVectorization(max_tokens=200, output_mode="multi_hot")
vectorize.adapt(texts[:1280])
train = tf.data.Dataset.from_tensor_slices((texts[:1280], tags[:1280])).shuffle(1280).batch(32)
val = tf.data.Dataset.from_tensor_slices((texts[1280:], tags[1280:])).batch(64)
train = train.map(lambda t, l: (vectorize(t), l), num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
val = val.map(lambda t, l: (vectorize(t), l)).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential([
    keras.Input((vectorize.vocabulary_size(),)),
    layers.Dense(32, activation="relu"),
    layers.Dense(4, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["binary_accuracy", keras.metrics.AUC(multi_label=True, num_labels=4, name="auc")])
model.fit(train, validation_data=val, epochs=3, verbose=2)
