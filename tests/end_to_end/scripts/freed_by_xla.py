"""A function compiled by XLA that updates two variables runs out of memory. What happens to the variables?"""

import numpy as np
import tensorflow as tf

COUNT = 1 << 20
bare, held = (tf.Variable(tf.range(COUNT, dtype=tf.float32) + 1.0) for _ in range(2))
before = bare.numpy().copy()
value = held.read_value()  # something else refers to the buffer


@tf.function(jit_compile=True)
def step(x):
    y = tf.tanh(tf.matmul(x, tf.ones((16, 256))))
    y = tf.tanh(tf.matmul(y, tf.ones((256, 256))))
    total = tf.reduce_sum(tf.sort(y, axis=0) * tf.range(256, dtype=tf.float32))
    for variable in (bare, held):
        variable.assign_add(variable * 0.5 + total)
    return total


try:
    step(tf.zeros((65536, 16)))
    print("it fits")
except tf.errors.ResourceExhaustedError as error:
    print(type(error).__name__)
others = [tf.fill((COUNT,), 7.0) + 0 for _ in range(4)]  # the next allocation
print("held", bool(np.array_equal(held.numpy(), before)), flush=True)
print("bare", bool(np.array_equal(bare.numpy(), before)), flush=True)
