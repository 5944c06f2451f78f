"""Tests a little of what a training needs, against NumPy."""

import numpy as np
import tensorflow as tf

draw = np.random.default_rng(1)
a, b = draw.random((200, 300)), draw.random((300, 100))
assert np.allclose(tf.matmul(a, b), a @ b)
print("a matrix product is right on", tf.matmul(a, b).device)
