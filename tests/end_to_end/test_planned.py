"""`oomph plan` on scripts as users write them: the document, the verdicts, and that nothing after fit runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oomph.planning.xla.compiling import why_not

LIMIT = 120
SCRIPT = """
import sys
import keras
import numpy as np

layers = keras.layers
x, y = np.random.rand(256, 16, 16, 3).astype("float32"), np.random.randint(0, 10, 256)
hidden = [layers.Conv2D(32, 3, activation="relu", name="patterns"), layers.Flatten(), layers.Dense(256, name="wide")]
model = keras.Sequential([keras.Input((16, 16, 3)), *hidden, layers.Dense(10, "softmax", name="classes")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"]{COMPILE})
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
open("trained", "w").close()
"""


def plan(folder: Path, *options: str, compiled: str = ", jit_compile=False") -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(SCRIPT.replace("{COMPILE}", compiled))
    command = [sys.executable, "-m", "oomph", "plan", "--json", *options, "train.py"]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert not (folder / "trained").exists()
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    return plan(tmp_path_factory.mktemp("roomy"), "--gpu", "500MiB", "--batch", "1,8,512")


@pytest.mark.slow
def test_requested_batches_and_a_larger_one_are_predicted_to_fit(roomy) -> None:
    code, document = roomy
    assert code == 0
    assert document["schema"] == 1
    assert document["engine"] in ("graph", "dry-run")
    assert document["batch"] == 64
    assert [row["batch"] for row in document["estimates"]] == [1, 8, 512]
    assert {row["fits"] for row in document["estimates"]} == {"yes"}
    assert document["max_batch"] > 64
    assert document["micro_batch"] == 64, "never larger than the batch"
    assert document["curve"][-1]["expected"] > 500 << 20, "the picture shows where the memory ends"
    for row in document["estimates"]:
        assert 0 < row["low"] <= row["expected"] <= row["high"] < 500 << 20


def test_planned_memory_grows_with_the_batch(roomy) -> None:
    _, document = roomy
    curve = [row["expected"] for row in document["curve"]]
    assert curve == sorted(curve)
    assert curve[-1] > curve[0]


def test_memory_is_itemised_under_the_users_own_names(roomy) -> None:
    _, document = roomy
    weights = next(item for item in document["items"] if item["name"] == "weights")
    parameters = 3 * 3 * 3 * 32 + 32 + 14 * 14 * 32 * 256 + 256 + 2560 + 10
    assert weights["expected"] == pytest.approx(4 * parameters, rel=0.01)
    assert {layer["name"] for layer in document["layers"]} <= {"patterns", "wide", "classes", "flatten", "other"}
    assert max(moment["size"] for moment in document["timeline"]) > weights["expected"]


@pytest.mark.slow
def test_gpu_specific_memory_is_included_in_every_memory_saver_estimate(tmp_path: Path) -> None:
    _, document = plan(tmp_path, "--gpu", "T4", "--batch", "512")
    added = sum(item["expected"] for item in document["items"] if item["basis"] == "assumed")
    assert added > 32 << 20
    planned = [saver["expected"] for saver in document["savers"] if saver.get("expected") is not None]
    assert planned
    assert all(expected > added for expected in planned)


def test_each_memory_saver_is_replanned_or_gives_a_reason(roomy) -> None:
    _, document = roomy
    savers = {saver["name"]: saver for saver in document["savers"]}
    assert savers["mixed bfloat16"]["expected"] > 0
    assert savers["SGD instead"]["expected"] < document["estimates"][-1]["high"]
    assert savers["recompute activations"].get("expected") is None
    assert "not planned" in savers["recompute activations"]["changes"]
    assert next(saver["line"] for name, saver in savers.items() if name.startswith("micro-batches of")).endswith(
        " train.py"
    )
    assert not any("..." in saver["line"] for saver in savers.values())
    assert all(saver["line"] for saver in savers.values() if "would not save any memory here" not in saver["changes"])


@pytest.mark.slow
def test_plan_for_too_little_memory_exits_with_1(tmp_path: Path) -> None:
    code, document = plan(tmp_path, "--gpu", "16MiB", "--html", "plan.html")
    assert code == 1
    assert document["max_batch"] == 0
    assert document["estimates"][0]["fits"] == "no"
    assert "<svg" in (tmp_path / "plan.html").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not why_not(), reason="XLA's compiler is installed")
@pytest.mark.parametrize(("gpu", "fits"), [("RTX 4090", "yes"), ("128MiB", "unknown")])
def test_xla_step_without_its_compiler_fits_only_with_ample_memory(tmp_path: Path, gpu, fits) -> None:
    code, document = plan(tmp_path, "--gpu", gpu, "--optimizer", "sgd", compiled="")
    assert code == 0
    assert document["estimates"][0]["fits"] == fits
    assert any("fits unless XLA uses more than" in note for note in document["notes"]) == (fits == "yes")
    assert document["max_batch"] is None
    assert "set jit_compile=False in compile()" in document["why_open"]
    assert "pip install 'oomph[xla]'" in document["why_open"]
    assert not any("pip install" in note for note in document["notes"]), "said once"
    assert "SGD" in document["subject"]


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=f"XLA's compiler is not installed: {why_not()}")
def test_xla_step_is_planned_with_its_compiler_for_the_gpu(tmp_path: Path) -> None:
    code, document = plan(tmp_path, "--gpu", "RTX 4090", compiled="")
    assert code == 0
    assert document["engine"] == "xla-gpu"
    assert document["estimates"][0]["fits"] == "yes"
    assert document["max_batch"] >= 64
    assert {"compiled", "counted", "assumed"} == {item["basis"] for item in document["items"]}
    assert any("real GPU" in note for note in document["notes"])


FAILS = """
import keras
import numpy as np
import tensorflow as tf

class Breaks(keras.layers.Layer):
    def call(self, x):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(x) > 1e30, ["too small"])]):
            return tf.identity(x)

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), Breaks(), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
model.fit(np.zeros((64, 16)), np.zeros((64, 1)))
"""


def test_step_that_fails_to_run_is_not_predicted_to_fit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS)
    command = [sys.executable, "-m", "oomph", "plan", "--json", "--gpu", "4GiB", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    document = json.loads(done.stdout)
    assert (document["engine"], document["max_batch"]) == ("graph", None)
    assert [row["fits"] for row in document["estimates"]] == ["unknown"]
    assert any("real step of 2 samples failed: InvalidArgumentError" in note for note in document["notes"])
