"""--recheck: a device that occasionally computes wrong results without any error."""

from __future__ import annotations

import pytest

_SCRIPT = """
import os, sys
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
x = np.random.normal(size=(160, 4)).astype("float32")
calls = []

def factor():
    calls.append(1)
    if "broken" in sys.argv and len(calls) == int(sys.argv[-1]) and not os.path.exists("was-wrong"):
        open("was-wrong", "w").close()
        return np.float32(1.5)
    return np.float32(1)

@tf.custom_gradient
def through(x):
    return tf.identity(x), lambda upstream: upstream * tf.numpy_function(factor, [], tf.float32)

class Through(keras.layers.Layer):
    def call(self, x):
        return through(x)

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), Through(), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
model.fit(x, x[:, :1], epochs=4, batch_size=16, verbose=0)
np.savez(sys.argv[1], **{str(i): np.asarray(v) for i, v in enumerate([*model.variables, *model.optimizer.variables])})
"""


@pytest.mark.slow
def test_wrong_result_is_reported_and_the_run_resumes_before_it(work, same_bits):
    work.write(_SCRIPT)
    assert work.plain("train.py", "plain.npz").returncode == 0
    # Ten steps take ten computations, plus two for each of two comparisons; the third comparison, after step 14,
    # produces a different result the second time.
    ours = work.oomph("--recheck=5", "--checkpoint-every=4", "train.py", "ours.npz", "broken", "20")
    assert ours.returncode == 0, ours.stderr[-3000:]
    (found,) = ours.events("inconsistent")
    assert found.data["device"] == "CPU:0"
    assert "dense/" in found.data["variable"]
    assert found.data["third"] == "the first"
    assert any("silent fault at epoch 2, step 5: two computations" in line for line in ours.said)
    assert ours.summary["faults"] == {"hardware-fault": 1}
    assert ours.summary["restarts"] == 1
    (resumed,) = ours.events("resumed")
    assert resumed.data["steps"] <= 9, "nothing that was saved after the last clean comparison is used"
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    (rechecked,) = ours.events("rechecked")
    assert rechecked.data["steps"] == 6
