"""There are three classes (0, 1, 2) but the model ends in one sigmoid with binary crossentropy; use three softmax units and the sparse loss."""

# finds: binary-targets

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
centers = rng.normal(0, 1.5, size=(3, 13))
wine = rng.integers(0, 3, 900)
feats = (centers[wine] + rng.normal(0, 0.8, (900, 13))).astype("float32")

class WineNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(32, activation="relu")
        self.head = layers.Dense(1, activation="sigmoid")  # WRONG
        self.head = layers.Dense(3, activation="softmax")  # RIGHT

    def call(self, x):
        return self.head(self.hidden(x))


loss = "binary_crossentropy"  # WRONG
loss = "sparse_categorical_crossentropy"  # RIGHT
net = WineNet()
net.compile(optimizer=keras.optimizers.Adam(0.005), loss=loss, metrics=["accuracy"])
net.fit(feats[:700], wine[:700], batch_size=32, epochs=3, validation_data=(feats[700:800], wine[700:800]), verbose=2)
print("test", net.evaluate(feats[800:], wine[800:], verbose=0))
