# finds: float64-features
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(8)
spectra = rng.normal(size=(1500, 128))
spectra = spectra.astype("float32")  # RIGHT
peak = (spectra[:, :8].sum(axis=1) > 0).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((spectra, peak)).shuffle(1500).batch(64).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(dataset, epochs=10, verbose=0)
