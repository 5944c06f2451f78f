"""After a sticky CUDA error, nothing is saved, and a new process continues. Uses the driver in tests/rig."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.rig, pytest.mark.slow]  # XLA compiles the step in each attempt

SCRIPT = """
import os, pathlib, sys
import keras
import numpy as np

class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5 and not pathlib.Path("broken").exists():
            pathlib.Path("broken").touch()
            os.environ[sys.argv[1]] = "700"  # the rig's driver: an illegal address, from now on

layers = [keras.layers.Dense(32, "tanh"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((16,)), *layers])
model.compile("adam", "mse")
x = np.zeros((640, 16), "float32")
try:
    model.fit(x, x[:, :1], batch_size=64, epochs=2, verbose=0, callbacks=[Breaks()])
except Exception as error:
    print("caught", type(error).__name__)
print("end")
"""


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        ("FAKE_LAUNCH_RC", {"illegal-memory-access"}),  # an exception
        ("FAKE_EVENT_RC", {"abort", "illegal-memory-access"}),  # a failing CHECK, SIGABRT: identified from stderr
    ],
)
def test_illegal_address_restarts_once_without_further_checkpoints(work, rig, call, faults):
    work.write(SCRIPT)
    ours = work.oomph("--checkpoint-every=2", "train.py", call, env=rig)
    assert (ours.returncode, ours.stdout) == (0, "end\n"), ours.stderr[-3000:]
    assert ours.summary["restarts"] == 1
    (first, _) = ours.events("attempt-ended")
    saved = [event.data["steps"] for event in ours.events("checkpoint") if event.attempt == 1]
    assert max(saved) <= first.data["steps"] <= 7
    assert set(ours.summary["faults"]) <= faults
    assert ours.summary["faults"]
