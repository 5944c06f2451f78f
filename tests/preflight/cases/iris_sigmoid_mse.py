# finds: regression-loss-for-classes
import keras
import numpy as np

rng = np.random.default_rng(4)
petals = rng.normal(size=(450, 4)).astype("float32")
species = petals[:, :3].argmax(axis=1)
targets = keras.utils.to_categorical(species, 3)
last = keras.layers.Dense(3, activation="sigmoid")  # WRONG
last = keras.layers.Dense(3, activation="softmax")  # RIGHT
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(12, activation="relu"), last])
model.compile("adam", loss="mean_squared_error", metrics=["accuracy"])  # WRONG
model.compile("adam", loss="categorical_crossentropy", metrics=["accuracy"])  # RIGHT
model.fit(petals, targets, epochs=30, batch_size=16, verbose=0)
