"""In-batch negatives, in code that relies on the batch size: the batch cannot be divided, and needs much memory."""

import keras
import numpy as np

N, BATCH = 4096, 1024
keras.config.set_floatx("float64")
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(N, 32)), rng.normal(size=(N, 16))


def in_batch_negatives(y, p):
    scores = keras.ops.matmul(p, keras.ops.transpose(y))
    return keras.ops.sparse_categorical_crossentropy(keras.ops.arange(scores.shape[0]), scores, from_logits=True)


layers = [keras.layers.Dense(512, "relu") for _ in range(4)]
model = keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(16)])
model.compile("adam", in_batch_negatives, jit_compile=False)
model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
print("iterations", int(model.optimizer.iterations.numpy()))
