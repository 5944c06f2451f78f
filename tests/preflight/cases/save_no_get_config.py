# finds: model-not-savable
import keras
import numpy as np


class Settings:
    def __init__(self, factor):
        self.factor = factor


class Gain(keras.layers.Layer):
    def __init__(self, settings, **kwargs):
        super().__init__(**kwargs)
        self.settings = settings

    def call(self, inputs):
        return inputs * self.settings.factor


keep = keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True, monitor="loss")  # WRONG
keep = keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True, monitor="loss")  # RIGHT
rng = np.random.default_rng(0)
signal = rng.normal(size=(300, 6)).astype("float32")
level = signal @ rng.normal(size=6).astype("float32")
model = keras.Sequential([keras.Input((6,)), Gain(Settings(2.0)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(signal, level, epochs=20, callbacks=[keep], verbose=0)
