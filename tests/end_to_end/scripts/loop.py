"""A custom training loop, whose step is guarded with `--guard`."""

import sys

import keras
import numpy as np
import tensorflow as tf

keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(6000, 16)), rng.normal(size=(6000, 4))
layers = [keras.layers.Dense(256, "tanh") for _ in range(4)]
model = keras.Sequential([keras.Input((16,)), *layers, keras.layers.Dropout(0.2), keras.layers.Dense(4)])
optimizer, seen = keras.optimizers.Adam(0.001), keras.metrics.Mean()
error = keras.metrics.MeanAbsoluteError()


@tf.function(jit_compile="--jit" in sys.argv)
def step(x, y):
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        loss = tf.reduce_mean((y - outputs) ** 2)
        if tf.reduce_sum(x) > 1e9:  # AutoGraph has to turn this into a tf.cond
            loss *= 2.0
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    seen.update_state(loss)
    error.update_state(y, outputs)
    return loss, tf.reduce_sum(outputs), outputs[:, 0]


if "--guard" in sys.argv:
    import oomph

    step = oomph.guard(step, batched=("x", "y"))

results = []
for _ in range(2):
    for batch in tf.data.Dataset.from_tensor_slices((x, y)).batch(2048):
        loss, total, first = step(*batch)
        results.append([float(loss), float(total), float(first[-1]), len(first)])
variables = [*model.variables, *optimizer.variables, *seen.variables, *error.variables]
np.savez(sys.argv[1], results=results, **{f"v{i:02}": np.array(v) for i, v in enumerate(variables)})
