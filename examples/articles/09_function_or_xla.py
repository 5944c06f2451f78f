"""Says which of two functions XLA compiles."""

import tensorflow as tf


def step(numbers):
    return tf.reduce_sum(numbers * numbers)


for name, traced in (
    ("tf.function", tf.function(step)),
    ("tf.function(jit_compile=True)", tf.function(step, jit_compile=True)),
):
    attributes = traced.get_concrete_function(tf.TensorSpec([4])).function_def.attr
    print(name, "is compiled by XLA:", attributes["_XlaMustCompile"].b)
