"""Two replicas of a MirroredStrategy, in float64; the last batch is smaller: `mirrored.py OUT.npz [epochs] [--inside]`.

With --inside, everything is called within the scope, as in Keras' guide to distribution.
"""

import sys
from contextlib import ExitStack

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
keras.config.set_floatx("float64")
rng = np.random.default_rng(0)
x, y = rng.normal(size=(600, 64)), rng.integers(0, 3, 600)
strategy, scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), ExitStack()
if "--inside" in sys.argv:
    sys.argv.remove("--inside")
    scope.enter_context(strategy.scope())
with strategy.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(4096, "relu"),
            layers.Activation("tanh"),
            layers.Dropout(0.2),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
history = model.fit(x, y, batch_size=256, epochs=epochs, shuffle=False, verbose=0).history
x, y = np.tile(x, (3, 1)), np.tile(y, 3)
evaluated = model.evaluate(x, y, batch_size=1800, verbose=0)
predicted = model.predict(x, batch_size=1800, verbose=0)
scope.close()
variables = [*model.variables, *model.optimizer.variables]
np.savez(
    sys.argv[1], evaluated, predicted, *[np.array(v) for v in variables], **{k: np.array(v) for k, v in history.items()}
)
