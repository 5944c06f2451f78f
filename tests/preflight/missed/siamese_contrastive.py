"""The pair label is 1 for equal pairs, but the contrastive loss pulls pairs with label 0 together: similar pairs are pushed apart and different ones pulled together."""

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(53)
rng = np.random.default_rng(53)
centers = rng.normal(0, 1.0, (6, 12))
cls = rng.integers(0, 6, 600)
X = (centers[cls] + rng.normal(0, 0.5, (600, 12))).astype("float32")
left = rng.integers(0, 600, 1600)
right = np.where(rng.random(1600) < 0.4, [rng.choice(np.flatnonzero(cls == cls[i])) for i in left], rng.integers(0, 600, 1600))
same = (cls[left] == cls[right]).astype("float32")

def contrastive_loss(y_true, distance, margin=1.0):
    near = ops.square(distance)
    far = ops.square(ops.maximum(margin - distance, 0.0))
    return ops.mean((1.0 - y_true) * near + y_true * far)  # WRONG
    return ops.mean(y_true * near + (1.0 - y_true) * far)  # RIGHT


encoder = keras.Sequential([
    keras.Input((12,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(8),
])
a, b = keras.Input((12,)), keras.Input((12,))
gap = layers.Subtract()([encoder(a), encoder(b)])
distance = layers.Lambda(lambda d: ops.sqrt(ops.sum(ops.square(d), axis=1, keepdims=True) + 1e-7), output_shape=(1,))(gap)
siamese = keras.Model([a, b], distance)
siamese.compile(optimizer=keras.optimizers.Adam(3e-3), loss=contrastive_loss)
siamese.fit([X[left], X[right]], same, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
d = siamese.predict([X[left], X[right]], verbose=0)[:, 0]
print("mean distance of equal pairs:", d[same == 1].mean(), "of different pairs:", d[same == 0].mean())
