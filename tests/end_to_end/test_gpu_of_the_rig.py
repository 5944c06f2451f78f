"""XLA on the rig's GPU with default flags: TensorFlow's own control flow, but garbage numbers."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.rig, pytest.mark.slow]  # XLA compiles every new size


def test_oversized_gpu_batch_trains_in_parts_or_after_a_restart(work, rig):
    """jit_compile="auto" means XLA here; without XLA, the rig would compute even shapes and return garbage."""
    work.script("wide.py")
    ours = work.oomph("--checkpoint-every=1", "--inexact=allow", "wide.py", env=rig)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "GPU jit True epochs 2\n"
    ooms = ours.events("oom")
    assert ooms, "65536 samples fitted: the rig has more memory than it should"
    assert ooms[0].data["batch"] == 65536
    phases = {event.data["phase"] for event in ooms}
    assert phases <= {"compute", "commit"}
    assert ours.events("recovered") or ours.summary["restarts"]
    if "commit" in phases:
        assert ours.summary["restarts"] == len(ours.events("restart-requested")) > 0
    final = ours.events("fit-finished")[-1].data["micro_batch"]
    assert final is not None
    assert 1 <= final < 65536
    assert (ours.summary["steps"], ours.summary["micro_batch"]) == (4, final)
    assert ours.summary["faults"].get("device-oom", 0) >= 1


SMALL = """
import keras
import numpy as np

layers = [keras.layers.Dense(32, "tanh"), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((16,)), *layers])
model.compile("adam", "mse", metrics=["mae"])
model.fit(np.zeros((640, 16), "float32"), np.zeros((640, 1), "float32"), batch_size=64, epochs=3, verbose=0)
print("jit", model.jit_compile)
"""


@pytest.mark.parametrize("start", ["plain", "oomph"])
def test_every_xla_step_is_a_command_buffer_with_default_flags(work, rig, start):
    """A command buffer is a CUDA graph: the rig's driver traces each graph launch."""
    assert "XLA_FLAGS" not in work.environ(**rig)
    ended = getattr(work, start)(work.write(SMALL), env={**rig, "FAKE_TRACE": "1"})
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout == "jit True\n"
    calls = re.findall(r"\[fakecuda\] (cuGraph\w+)", ended.stderr)
    assert calls.count("cuGraphInstantiate") == 1
    assert calls.count("cuGraphLaunch") == 30
