"""The batch size suggested in a run's last line does fit: plain Keras trains with it in the same memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIMIT = 200
SCRIPT = """
import sys
import keras
import numpy as np

batch = int(sys.argv[1])
x, y = np.random.rand(3 * batch, 24, 24, 3).astype("float32"), np.random.randint(0, 10, 3 * batch)
layers = [keras.layers.Conv2D(16, 3, activation="relu") for _ in range(3)]
head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(512, "relu"), keras.layers.Dense(10, "softmax")]
model = keras.Sequential([keras.Input((24, 24, 3)), *layers, *head])
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=sys.argv[2] == "jit")
model.fit(x, y, batch_size=batch, verbose=0)
"""
ENVIRON = os.environ | {
    "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPU_ALLOCATOR_USE_BFC": "1",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "300",
}  # fmt: skip


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=ENVIRON
    )


@pytest.mark.parametrize("kind", ["graph", pytest.param("jit", marks=pytest.mark.slow)])
def test_plain_keras_trains_with_the_suggested_batch_size(tmp_path: Path, kind: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ours = run(tmp_path, "-m", "oomph", "run", "--run-dir=run", "train.py", "64", kind)
    assert ours.returncode == 0, ours.stderr
    last = [line for line in ours.stderr.splitlines() if line.startswith("oomph: finished")][-1]
    found = re.search(r" of 300 MiB.*; batches of up to ([\d,]+) should fit \(64 in this run\)$", last)
    assert found, last
    named = int(found[1].replace(",", ""))
    assert named > 100
    assert run(tmp_path, "train.py", str(named), kind).returncode == 0
    assert run(tmp_path, "train.py", str(16 * named), kind).returncode != 0, "the limit is real"


def test_resetting_memory_statistics_does_not_inflate_the_suggested_batch_size(tmp_path: Path) -> None:
    resets = """

class Reset(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        tf.config.experimental.reset_memory_stats("CPU:0")

    on_train_batch_end = on_epoch_end
"""
    text = SCRIPT.replace("import numpy as np\n", f"import numpy as np\nimport tensorflow as tf\n{resets}")
    (tmp_path / "train.py").write_text(text.replace("verbose=0)", "verbose=0, callbacks=[Reset()])"))
    ours = run(tmp_path, "-m", "oomph", "run", "--run-dir=run", "train.py", "64", "graph")
    assert ours.returncode == 0, ours.stderr
    named = re.search(r"; batches of up to ([\d,]+) should fit \(64 in this run\)$", ours.stderr, re.MULTILINE)
    assert named, ours.stderr
    assert 100 < int(named[1].replace(",", "")) < 500, "by a count of what is left after the steps it would be 1,024"
