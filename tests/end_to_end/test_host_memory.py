"""Running out of host memory, in a real control group: diagnosed as such, and countered by using less memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GROUPS = Path("/sys/fs/cgroup/memory")  # version 1; in version 2, a group that contains processes cannot be divided


def own_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "memory" in controllers.split(","):
            return GROUPS / name.lstrip("/")
    return GROUPS


@pytest.fixture
def limited():
    """Create a control group with this many megabytes."""
    made = own_group() / f"oomph-test-{os.getpid()}"

    def limit(megabytes: int) -> Path:
        made.mkdir()
        (made / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        return made / "cgroup.procs"

    yield limit
    if made.exists():
        made.rmdir()


PREFETCHES = """
import os, time
import keras
import tensorflow as tf

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.1)  # slower than the pipeline, which is always as far ahead as it may be

def batches(count, rows):
    return tf.data.Dataset.range(count).map(lambda n: (tf.ones((rows, 1 << 18)), tf.ones((rows, 1))))

model = keras.Sequential([keras.Input((1 << 18,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(1e-9), "mse", jit_compile=False)  # a quarter of a million ones: more diverges
data = batches(40, 1).concatenate(batches(32, 40)).prefetch(32)  # of 1 MB, then of 40 MB
model.fit(data, verbose=0, callbacks=[Slow()])
print("steps", int(model.optimizer.iterations))
"""


MAY_LIMIT = os.access(own_group(), os.W_OK) and (GROUPS / "memory.limit_in_bytes").exists()


@pytest.mark.slow
@pytest.mark.skipif(not MAY_LIMIT, reason="a limit that the kernel keeps is a control group of version 1: takes root")
def test_prefetching_is_reduced_after_a_kernel_oom_kill(work, limited):
    procs = limited(700)
    running = work.start(
        "--checkpoint-every=1000", work.write(PREFETCHES), preexec_fn=lambda: procs.write_text(str(os.getpid()))
    )
    ours = running.finish()
    assert (ours.returncode, ours.stdout) == (0, "steps 72\n"), ours.stderr[-3000:]
    assert set(ours.summary["faults"]) == {"host-oom"}
    assert ours.summary["changes"] == ["at most one batch prefetched"]
    ended = [event.data for event in ours.events("attempt-ended")]
    assert all((data["returncode"], data["oom_kills"]) == (-9, 1) for data in ended[:-1]), ended
    assert 3 <= len(ended) <= 6


WIDE = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
layers = [keras.layers.Dense(512, "relu") for _ in range(4)]
model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
x = np.ones((16384, 64), "float32")
model.fit(x, x[:, :1], batch_size=8192, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations))
"""


@pytest.mark.slow
def test_onednn_crash_is_reported_as_host_oom_and_run_recovers_without_onednn(work, memory):
    """oneDNN's matmul uses a block that it failed to allocate; without it, TensorFlow raises and oomph divides."""
    limit = {**memory(75), "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "0"}
    assert work.plain(work.write(WIDE), env=limit).returncode == -11
    ours = work.oomph("train.py", env=limit)
    assert (ours.returncode, ours.stdout) == (0, "steps 4\n"), ours.stderr[-3000:]
    assert ours.summary["faults"]["host-oom"] == 3
    assert ours.summary["changes"] == [
        "at most one batch prefetched",
        "without oneDNN's kernels (TF_ENABLE_ONEDNN_OPTS=0)",
    ]
    assert ours.events("recovered")
