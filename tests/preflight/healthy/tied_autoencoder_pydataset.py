"""Denoising of standardized (partly negative) spectra: a PyDataset adds fresh noise to the input, the decoder reuses the transposed encoder weights, linear output."""
import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(82)
rng = np.random.default_rng(82)
basis = rng.normal(size=(6, 40))
clean = rng.normal(size=(1300, 6)) @ basis
clean = ((clean - clean[:1000].mean(axis=0)) / clean[:1000].std(axis=0)).astype("float32")


class Noisy(keras.utils.PyDataset):
    def __init__(self, data, batch_size, seed, **kwargs):
        super().__init__(**kwargs)
        self.data, self.batch_size = data, batch_size
        self.rng = np.random.default_rng(seed)
        self.order = np.arange(len(data))

    def __len__(self):
        return -(-len(self.data) // self.batch_size)

    def __getitem__(self, i):
        target = self.data[self.order[i * self.batch_size:(i + 1) * self.batch_size]]
        return target + self.rng.normal(0, 0.3, target.shape).astype("float32"), target

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


class Tied(layers.Layer):
    def __init__(self, dense, **kwargs):
        super().__init__(**kwargs)
        self.dense = dense

    def build(self, shape):
        self.bias = self.add_weight(shape=(self.dense.kernel.shape[0],), initializer="zeros", name="bias")

    def call(self, h):
        return ops.matmul(h, ops.transpose(self.dense.kernel)) + self.bias


inputs = keras.Input((40,))
encoder = layers.Dense(12)
model = keras.Model(inputs, Tied(encoder)(encoder(inputs)))
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="mse")
model.fit(Noisy(clean[:1000], 20, 1), epochs=3, validation_data=Noisy(clean[1000:], 50, 2), verbose=2)
print("val mse", model.evaluate(Noisy(clean[1000:], 50, 3), verbose=0), "noise power", 0.09)
