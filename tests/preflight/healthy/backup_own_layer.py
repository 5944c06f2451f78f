# A layer without get_config, of which only the weights are saved.
import keras
import numpy as np


class Mixing(keras.layers.Layer):
    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        self.table = table
        self.dense = keras.layers.Dense(len(table), "relu")

    def call(self, inputs):
        return self.dense(inputs)


rng = np.random.default_rng(1)
features = rng.normal(size=(600, 5)).astype("float32")
price = features @ np.array([1.0, -2.0, 0.5, 0.0, 3.0], "float32") + rng.normal(0, 0.1, 600).astype("float32")
model = keras.Sequential([keras.Input((5,)), Mixing(object.__subclasses__()[:8]), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(
    features,
    price,
    validation_split=0.2,
    epochs=20,
    verbose=0,
    callbacks=[
        keras.callbacks.BackupAndRestore("backup"),
        keras.callbacks.ModelCheckpoint("best.weights.h5", save_best_only=True, save_weights_only=True),
    ],
)
model.save_weights("last.weights.h5")
np.save("history.npy", price)
