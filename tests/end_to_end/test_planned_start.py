"""`oomph run --plan` in a pool too small for the batch: no step runs out of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 200
SCRIPT = """
import keras
import numpy as np

x, y = np.random.rand(4096, 64).astype("float32"), np.random.rand(4096, 1).astype("float32")
hidden = [keras.layers.Dense(512, "tanh") for _ in range(6)]
model = keras.Sequential([keras.Input((64,)), *hidden, keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
"""


def run(folder: Path, batch: int, **limits: str) -> tuple[str, list[dict[str, object]]]:
    (folder / "train.py").write_text(SCRIPT.replace("BATCH", str(batch)))
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0", **limits}
    command = [sys.executable, "-m", "oomph", "run", "--plan", "--run-dir=run", "train.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert done.returncode == 0, done.stderr
    events = [
        json.loads(line) for file in (folder / "run" / "journal").iterdir() for line in file.read_text().splitlines()
    ]
    return done.stderr, events


POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "48"}


@pytest.mark.slow
def test_planned_micro_batches_never_run_out_of_memory(tmp_path: Path) -> None:
    said, events = run(tmp_path, 2048, **POOL)
    assert "oomph: the batch of 2048 at train.py:9 may not fit: it is trained in micro-batches of " in said
    assert not [event for event in events if event["event"] == "oom"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 100 < summary["micro_batch"] < 2048
    assert summary["exactness"] == "exact"


@pytest.mark.slow
def test_batch_that_fits_is_not_divided(tmp_path: Path) -> None:
    said, _ = run(tmp_path, 256, **POOL)
    assert "oomph: the batch of 256 at train.py:9 should fit, as should any up to " in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["micro_batch"] is None


@pytest.mark.parametrize("script", ["print('no training')", "raise SystemExit(3)"])
def test_unplannable_script_runs_without_a_plan(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "oomph", "run", "--plan", "--run-dir=run", "train.py"]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", **POOL}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert done.returncode == (3 if "Exit" in script else 0)
    assert "--plan has no effect: nothing was planned" in done.stderr
