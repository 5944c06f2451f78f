"""The keys of the loss dictionary are not the names of the output layers, so Keras cannot match losses to outputs."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(14)
rng = np.random.default_rng(14)
latent = rng.normal(size=(1000, 2))
X = np.tanh(latent @ rng.normal(size=(2, 16))) + rng.normal(0, 0.1, (1000, 16))
X = X.astype("float32")
age = (40 + 12 * latent[:, 0]).astype("float32")
age_scaled = (age - 40) / 12
gender = (latent[:, 1] > 0).astype("float32")

inputs = keras.Input((16,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dense(32, activation="relu")(h)
age_out = layers.Dense(1, name="age_output")(h)
gender_out = layers.Dense(1, activation="sigmoid", name="gender_output")(h)
model = keras.Model(inputs, {"age_output": age_out, "gender_output": gender_out})
losses = {"age": "mse", "gender": "binary_crossentropy"}  # WRONG
losses = {"age_output": "mse", "gender_output": "binary_crossentropy"}  # RIGHT
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=losses,
    metrics={"age_output": ["mae"], "gender_output": ["accuracy"]},
)
targets = {"age_output": age_scaled, "gender_output": gender}
model.fit(X, targets, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
