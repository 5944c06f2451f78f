# keras.utils.PyDataset with workers=3 threads, index shuffle by its own rng in on_epoch_end, an epoch counter and per-item seeded augmentation.
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(10)


class Augmented(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, training=True, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y = x, y
        self.batch_size = batch_size
        self.training = training
        self.rng = np.random.default_rng(np.random.randint(0, 2**31))
        self.indexes = np.arange(len(x))
        self.epoch = 0
        self.base_seed = int(self.rng.integers(1 << 30))
        if training:
            self.rng.shuffle(self.indexes)

    def __len__(self):
        return int(np.ceil(len(self.x) / self.batch_size))

    def __getitem__(self, i):
        idx = self.indexes[i * self.batch_size : (i + 1) * self.batch_size]
        xb = self.x[idx].copy()
        if self.training:
            r = np.random.default_rng([self.base_seed, self.epoch, i])
            strength = min(1.0, self.epoch / 4)
            for j in range(len(xb)):
                if r.random() < 0.5:
                    xb[j] = xb[j] * r.uniform(0.7, 1.3)
                a, b = r.integers(0, 8, 2)
                xb[j, a : a + 3, b : b + 3] = 0.5
            xb += strength * 0.2 * r.normal(size=xb.shape)
        return xb.astype("float32"), self.y[idx]

    def on_epoch_end(self):
        if self.training:
            self.epoch += 1
            self.rng.shuffle(self.indexes)


n = 700
imgs = np.random.rand(n, 10, 10, 1).astype("float32")
imgs[:, :5, :5] += 0.3 * np.random.rand(n, 1, 1, 1).astype("float32")
quad = np.stack([imgs[:, :5, :5].sum((1, 2, 3)), imgs[:, :5, 5:].sum((1, 2, 3)), imgs[:, 5:].sum((1, 2, 3)) / 2], 1)
labels = quad.argmax(1)

train = Augmented(imgs[:560], labels[:560], 28, workers=3, use_multiprocessing=False, max_queue_size=6)
valid = Augmented(imgs[560:], labels[560:], 35, training=False)

inp = layers.Input((10, 10, 1))
x = layers.SeparableConv2D(12, 3, activation="relu")(inp)
x = layers.Flatten()(x)
x = layers.Dropout(0.2)(x)
out = layers.Dense(3, activation="softmax")(x)
model = keras.Model(inp, out)
model.compile(keras.optimizers.AdamW(8e-3, weight_decay=0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train, validation_data=valid, epochs=12, verbose=0)

arrays = {f"var_{i}": np.array(v) for i, v in enumerate(model.variables)}
arrays.update({f"opt_{i}": np.array(v) for i, v in enumerate(model.optimizer.variables)})
arrays.update({f"history_{k}": np.array(v) for k, v in history.history.items()})
arrays["indexes"] = train.indexes
arrays["epoch"] = np.array(train.epoch)
arrays["next_random"] = train.rng.random(4)
arrays["pred"] = model.predict(valid, verbose=0)
np.savez("result.npz", **arrays)
