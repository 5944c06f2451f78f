"""Trains models under MultiWorkerMirroredStrategy, each undisturbed and with too little memory on some workers.

Usage: short_workers.py OUT RANKS [two] KIND ..., in every worker, with TF_CONFIG set. RANKS, such as 0,1, are those
that run out of memory: in their third step and from then on, with room for three samples. With "two", each worker has
two replicas.
"""

import sys

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from oomph import testing

OUT, SHORT, *KINDS = sys.argv[1:]
if "two" in KINDS:
    KINDS.remove("two")
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    # TensorFlow gives a worker several replicas only if it has several GPUs.
    CollectiveAllReduceExtended._initialize_local_devices = lambda self, resolver, worker: (
        (f"{worker}/device:CPU:0", f"{worker}/device:CPU:1"),
        "CPU",
    )
strategy = tf.distribute.MultiWorkerMirroredStrategy()
RANK = strategy.cluster_resolver.task_id
FEATURES, WORDS = 6, 20
IS_NEW = hasattr(keras.src.losses.loss, "scale_loss_for_distribution")
keras.config.set_floatx("float64")
found: dict[str, np.ndarray] = {}

Layers = list[keras.layers.Layer]


def dense(*between: keras.layers.Layer) -> Layers:
    return [keras.layers.Dense(8, activation="tanh"), *between, keras.layers.Dense(1)]


def embedding() -> Layers:
    return [keras.layers.Embedding(WORDS, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]


def samples(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 61 samples: the last global batch has 13, which its workers do not share evenly."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, WORDS, (61, FEATURES)) if kind == "embedding" else rng.normal(size=(61, FEATURES))
    return x, np.tanh(x[:, :1]) + rng.normal(size=(61, 1)) / 8


def trained(kind: str) -> dict[str, np.ndarray]:
    """Return what a training of this kind leaves behind: weights, slots, losses and metrics."""
    keras.utils.set_random_seed(1)
    options = {"steps_per_execution": 3} if kind == "several" and IS_NEW else {}  # Keras 3.5 ends it differently
    keras.config.set_dtype_policy("mixed_float16" if kind == "mixed" else "float64")
    with strategy.scope():
        optimizer = keras.optimizers.Adam(0.05, global_clipnorm=0.1 if kind == "clipped" else None)
        layers = embedding() if kind == "embedding" else dense(*BETWEEN.get(kind, list)())
        model = keras.Sequential([keras.Input((FEATURES,)), *layers])
        model.compile(optimizer, "mse", metrics=["mae"], jit_compile=kind == "compiled", **options)
    x, y = samples(kind)
    if kind == "by_hand":  # each worker passes batches of its own
        starts = range(8 * RANK, 48, 16)
        history = {"loss": [model.train_on_batch(x[at : at + 8], y[at : at + 8])[0] for at in starts]}
    else:
        history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=2, verbose=0).history
    state = {
        "weights": model.trainable_variables,
        "slots": optimizer.variables,
        "others": model.non_trainable_variables,
    }
    values = {f"{name}{number}": np.asarray(value) for name, of in state.items() for number, value in enumerate(of)}
    return values | {name: np.array(value, np.float64) for name, value in history.items()}


BETWEEN = {
    "dropout": lambda: [keras.layers.Dropout(0.5)],
    "normalized": lambda: [keras.layers.BatchNormalization()],
    "synchronized": lambda: [keras.layers.BatchNormalization(synchronized=True)],
}
for kind in KINDS:
    room = testing.OutOfMemory(samples=3, after=2) if str(RANK) in SHORT.split(",") else testing.Injector()
    found |= {f"{kind}/undisturbed/{name}": value for name, value in trained(kind).items()}
    with testing.injecting(room):
        found |= {f"{kind}/disturbed/{name}": value for name, value in trained(kind).items()}
np.savez(f"{OUT}-{RANK}.npz", **found)
