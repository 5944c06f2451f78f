"""oomph.isolate with TensorFlow: whatever kills the process does not affect the caller."""

from __future__ import annotations

import signal

import pytest

_SCRIPT = """
import oomph

def train(units):
    import keras
    import numpy as np
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    history = model.fit(np.ones((32, 8)), np.ones((32, 1)), epochs=2, verbose=0)
    return history.history["loss"], model.get_weights()

def crash():
    import os
    import tensorflow as tf
    tf.constant(1.0)
    os.abort()

if __name__ == "__main__":
    losses, weights = oomph.isolate(train, (4,), timeout=100).result()
    print(len(losses), [w.shape for w in weights])
    print(oomph.isolate(crash, timeout=100).returncode)
    small = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "64"}
    outcome = oomph.isolate(train, (10_000_000,), timeout=100, environ=small)
    print(type(outcome.error).__name__, outcome.diagnoses[0].name)
    print("alive")
"""


@pytest.mark.slow
def test_isolate_returns_results_and_survives_crashes_and_out_of_memory(work):
    work.write(_SCRIPT)
    ended = work.plain("train.py")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.splitlines() == [
        "2 [(8, 4), (4,), (4, 1), (1,)]",
        str(-signal.SIGABRT),
        "ResourceExhaustedError device-oom",
        "alive",
    ]
