"""`oomph plan` on the rig's GPU: real steps there, compared with the memory that a fit uses.

The allocator is TensorFlow's own, but the numbers are garbage. Without XLA, which would compile for minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.rig, pytest.mark.slow]

LIMIT = 240
SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
x, y = np.random.rand(BATCH, 256).astype("float32"), np.random.randint(0, 10, BATCH)
hidden = [layers.Dense(WIDTH, "relu") for _ in range(3)]
model = keras.Sequential([keras.Input((256,)), *FIXED, *hidden, layers.Dense(10, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)


class Peak(keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        print("peak", tf.config.experimental.get_memory_info("GPU:0")["peak"])


model.fit(x, y, batch_size=BATCH, epochs=4, verbose=0, callbacks=[Peak()])
"""


class Machine:
    """A folder with the script, the rig's GPU, and a separate cache."""

    def __init__(self, folder: Path, rig: dict[str, str]) -> None:
        self.folder, self.cache = folder, folder / "cache"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "TF_", "XLA_", "FAKE_"))}
        self.environ = clean | rig | {"XDG_CACHE_HOME": str(self.cache), "TF_CPP_MIN_LOG_LEVEL": "3"}

    def write(self, batch: int, width: int = 1024, fixed: str = "[]") -> None:
        text = SCRIPT.replace("BATCH", str(batch)).replace("WIDTH", str(width)).replace("FIXED", fixed)
        (self.folder / "train.py").write_text(text)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT,
            env=self.environ | environ,
        )  # fmt: skip

    def plan(self, *options: str, **environ: str) -> tuple[int, dict[str, Any], str]:
        done = self.run("-m", "oomph", "plan", "--json", *options, "train.py", **environ)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def machine(tmp_path: Path, rig: dict[str, str]) -> Machine:
    return Machine(tmp_path, rig | {"FAKE_MEM_MB": "2048", "FAKE_NAME": "Tesla T4"})  # 512 MiB for TensorFlow


def test_probed_memory_matches_a_fit_and_is_kept_for_other_machines(machine):
    machine.write(512)
    code, document, _ = machine.plan("--batch", "64,512")
    assert code == 0
    assert document["engine"] == "probe"
    assert document["measured"][-2:] == [64, 512]
    assert {row["fits"] for row in document["estimates"]} == {"yes"}
    assert document["device"]["usable"] == 512 << 20, "what TensorFlow says itself"
    assert document["max_batch"] >= 512
    assert document["items"][-1]["basis"] == "measured"
    trained = machine.run("train.py", TF_FORCE_GPU_ALLOW_GROWTH="true")
    real = int(re.search(r"peak (\d+)", trained.stdout)[1])
    row = document["estimates"][-1]
    assert row["low"] <= real <= row["high"], "another process lays its memory out in another way"
    assert abs(row["expected"] / real - 1) < 0.2

    (kept,) = machine.cache.rglob("*.json")
    assert json.loads(kept.read_text())["gpu"] == "Tesla T4"
    _, later, _ = machine.plan("--gpu=T4", "--batch", "64,512", CUDA_VISIBLE_DEVICES="-1")
    assert (later["engine"], later["measured"]) == ("probe", [])
    assert "of this training ran on Tesla T4 in an earlier plan" in later["notes"][0]
    assert [row["expected"] for row in later["estimates"]] == pytest.approx(
        [row["expected"] for row in document["estimates"]], rel=0.01
    )
    machine.write(512, width=512)
    _, other, _ = machine.plan("--gpu=T4", "--batch", "64,512", CUDA_VISIBLE_DEVICES="-1")
    assert other["engine"] in ("graph", "dry-run")
    assert "1 training run measured on this GPU, which used" in other["notes"][0]


def test_out_of_memory_in_a_probe_means_the_batch_does_not_fit(machine):
    only = "[layers.Lambda(lambda x: keras.ops.reshape(x, (1 << 16, 256)))]"  # tried even though it should not fit
    machine.write(1 << 16, fixed=only)
    code, document, said = machine.plan()
    assert code == 1, said
    assert (document["engine"], document["measured"]) == ("probe", [])
    assert [row["fits"] for row in document["estimates"]] == ["no"]
    assert document["max_batch"] == 0
    assert document["notes"][0] == "A step of 65,536 samples ran out of memory on this GPU."
    assert not list(machine.cache.rglob("*.json"))
