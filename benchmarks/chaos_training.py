"""A small real training that records which samples each step took, and injects the faults of a plan into itself.

    chaos_training.py OUT.npz --data arrays|dataset|generator [--wide] [--backup DIR]

Every sample has a code, and a metric sums the codes of the trained samples: the running sums, recorded after each
step, show exactly which samples it took. The plan (`plan.json`) lists faults and the steps after which they occur;
each occurs once, unless its name begins with "always-".
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--data", choices=("arrays", "dataset", "generator"), default="arrays")
parser.add_argument("--wide", action="store_true", help="batches that need more memory than the benchmark gives")
parser.add_argument("--backup", help="use Keras' BackupAndRestore in this folder, as a baseline")
parser.add_argument("--every", type=int, default=5, help="steps between two backups")
args = parser.parse_args()

SAMPLES, BATCH, EPOCHS, WIDTH = (2048, 1024, 5, 512) if args.wide else (192, 16, 5, 24)
keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(SAMPLES, 8)), rng.normal(size=(SAMPLES, 1))
codes = rng.integers(0, 2**40, size=(SAMPLES, 1)).astype("float64")
targets = np.concatenate([y, codes], axis=1)
plan = json.loads(pathlib.Path("plan.json").read_text()) if os.path.exists("plan.json") else []


def once(name: str) -> bool:
    """True the first time only, over all attempts."""
    try:
        pathlib.Path(f"done-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def newest_checkpoint() -> pathlib.Path | None:
    found = sorted(pathlib.Path("run/checkpoints").glob("step-*/tensors.bin"))
    return found[-1] if found else None


def corrupt_and_die() -> None:
    path = newest_checkpoint()
    if path is not None:
        os.truncate(path, path.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_a_child_left() -> None:
    subprocess.Popen(["sleep", "600"], close_fds=False)
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise ValueError("the script's own error")


FAULTS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "bus": lambda: os.kill(os.getpid(), signal.SIGBUS),
    "hang": lambda: time.sleep(1000),
    "hang-cpp": lambda: tf.queue.FIFOQueue(1, [tf.float32]).dequeue(),
    "hang-gil": lambda: ctypes.PyDLL(None).sleep(1000),
    "corrupt": corrupt_and_die,
    "child": die_with_a_child_left,
    "full": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY)),
    "own-error": fail,
    "always-abort": os.abort,
}


class Chaos(keras.callbacks.Callback):
    """Writes the ledger, then does what the plan has for this step."""

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0
        self._ledger = os.open("ledger.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        time.sleep(0.01)
        step = self._epoch * (SAMPLES // BATCH) + batch + 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        line = {"at": round(time.time(), 3), "pid": os.getpid(), "step": step, "mean": logs["code"]}
        os.write(self._ledger, json.dumps(line).encode() + b"\n")
        for number, (name, at) in enumerate(plan):
            if at == step and name in FAULTS and (name.startswith("always-") or once(f"{number}-{name}")):
                FAULTS[name]()


def loss(y_true, y_pred):
    return tf.reduce_mean((y_true[:, :1] - y_pred) ** 2, axis=-1)


def code(y_true, y_pred):
    return y_true[:, 1]


def samples():
    for number in range(SAMPLES):
        yield x[number], targets[number]


def training_data() -> dict:
    if args.data == "arrays":
        return {"x": x, "y": targets, "batch_size": BATCH}
    if args.data == "dataset":
        data = tf.data.Dataset.from_tensor_slices((x, targets))
        return {"x": data.shuffle(SAMPLES, seed=3).batch(BATCH)}
    spec = (tf.TensorSpec((8,), "float64"), tf.TensorSpec((2,), "float64"))
    data = tf.data.Dataset.from_generator(samples, output_signature=spec)
    return {"x": data.apply(tf.data.experimental.assert_cardinality(SAMPLES)).batch(BATCH)}


layers = [keras.layers.Dense(WIDTH, "tanh") for _ in range(4 if args.wide else 2)]
model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dropout(0.1), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-3), loss, metrics=[code], jit_compile=False)
callbacks = [Chaos()]
if args.backup:
    callbacks.append(keras.callbacks.BackupAndRestore(args.backup, save_freq=args.every))
model.fit(**training_data(), epochs=EPOCHS, verbose=0, callbacks=callbacks, validation_data=(x[:64], targets[:64]))
variables = [*model.variables, *model.optimizer.variables]
np.savez(args.out, **{f"v{number:02}": np.asarray(v) for number, v in enumerate(variables)})
sys.stdout.write("trained\n")
