"""Tabular data: normalised numbers and looked-up categories in one model."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(0)
table = {
    "age": rng.integers(20, 80, 1000).astype("float32"),
    "income": rng.lognormal(10, 1, 1000).astype("float32"),
    "kind": rng.choice(["fixed", "normal", "reversible"], 1000),
}
target = ((table["age"] + rng.normal(0, 10, 1000)) > 55).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((dict(table), target)).shuffle(1000).batch(32)
age, income = keras.Input((1,), name="age"), keras.Input((1,), name="income")
kind = keras.Input((1,), name="kind", dtype="string")
norm_age, norm_income = layers.Normalization(axis=None), layers.Normalization(axis=None)
norm_age.adapt(table["age"])
norm_income.adapt(np.log(table["income"]))
lookup = layers.StringLookup(output_mode="one_hot", vocabulary=["fixed", "normal", "reversible"])
logged = layers.Lambda(lambda x: tf.math.log(x))(income)
x = layers.concatenate([norm_age(age), norm_income(logged), lookup(kind)])
x = layers.Dense(32, activation="relu")(x)
x = layers.Dropout(0.5)(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model([age, income, kind], outputs)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
dataset = dataset.map(lambda x, y: ({k: tf.expand_dims(v, -1) for k, v in x.items()}, y))
model.fit(dataset, epochs=5)
