"""The memory that a plan adds to the step's really is on the GPU: arrays passed to fit, and tf.data arrays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.rig, pytest.mark.slow]

SCRIPT = """
import json
import keras
import numpy as np
import tensorflow as tf


def in_use():
    return tf.config.experimental.get_memory_info("GPU:0")["current"]


class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        found["fit"] = in_use() - before


x, y, ids = np.zeros((50000, 100), "float32"), np.zeros((50000, 1)), np.zeros((50000, 100), "int32")
model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
tf.zeros([1])
found, before = {}, in_use()
model.fit(x, y, batch_size=500, steps_per_epoch=2, verbose=0, callbacks=[Watch()])
kept = []
for name, arrays in (("pipeline", (x, y)), ("ids", ids)):
    before = in_use()
    kept.append(tf.data.Dataset.from_tensor_slices(arrays))
    found[name] = in_use() - before
print(json.dumps(found))
"""


def test_tensorflow_puts_float_arrays_but_not_int32_arrays_on_the_gpu(tmp_path: Path, rig: dict[str, str]) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "TF_", "XLA_", "FAKE_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=240, env=clean | rig
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    x, y = 50000 * 100 * 4, 50000 * 4
    assert x + y <= found["fit"] < x + y + 20_000, "y becomes float32, as a plan counts it"
    assert x + 2 * y <= found["pipeline"] < x + 2 * y + 250_000, "as it was given"
    assert found["ids"] == 0
