"""Mixed precision, with the softmax in float32."""

import keras
import numpy as np
from keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")
inputs = keras.Input(shape=(784,), name="digits")
x = layers.Dense(256, activation="relu")(inputs)
x = layers.Dense(256, activation="relu")(x)
x = layers.Dense(10)(x)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
model = keras.Model(inputs, outputs)
model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.RMSprop(), metrics=["accuracy"])
rng = np.random.default_rng(0)
x_train = rng.integers(0, 256, (2000, 784)).astype("float32") / 255
model.fit(x_train, rng.integers(0, 10, 2000), batch_size=256, epochs=5, validation_split=0.2)
