"""Maps a function over samples on a device that is too small for the requested batches; prints the result.

Usage: mapped.py FUNCTION SOURCE SAMPLES BATCH_SIZE
"""

import json
import sys

import numpy as np
import tensorflow as tf

import oomph

function, source = sys.argv[1:3]
samples, batch_size = map(int, sys.argv[3:])
calls, seen = [], []
wide = tf.ones((2, 4096))


def eager(x):
    return tf.reduce_sum(tf.tanh(tf.tanh(x @ wide) + 1.0), 1)


def huge(x):  # 256 MiB for a single sample
    return tf.reduce_sum(tf.ones((64 << 20,)) * x[:, :1], 1)


def broken(x):
    raise ValueError("the script's own")


functions = {
    "eager": eager,
    "graph": tf.function(eager, reduce_retracing=True),
    "xla": tf.function(eager, jit_compile=True),
    "huge": huge,
    "broken": broken,
}


def fn(batch):
    number, x = batch
    calls.append(int(number.shape[0]))
    value = functions[function](x).numpy()
    seen.extend(number.numpy().tolist())  # last, when nothing can fail any more
    return number.numpy(), value


rng = np.random.default_rng(0)
x, number = rng.normal(size=(samples, 2)).astype("float32"), np.arange(samples)
datasets = {
    "arrays": lambda: (number, x),
    "pipeline": lambda: tf.data.Dataset.from_tensor_slices((number, x)),
    "generator": lambda: zip(number, x, strict=True),
}
results = list(oomph.map_batches(fn, datasets[source](), batch_size))
numbers = np.concatenate([result[0] for result in results]).tolist()
values = np.concatenate([result[1] for result in results])
sums = x.astype("float64").sum(1)  # the rows of `wide` are all ones
expected = 4096 * np.tanh(np.tanh(sums) + 1.0)
print(
    json.dumps(
        {
            "in_order": numbers == list(range(samples)),
            "once": seen == list(range(samples)),
            "right": bool(abs(values - expected).max() < 0.1),
            "calls": calls,
            "finished": [len(result[0]) for result in results],
        }
    )
)
