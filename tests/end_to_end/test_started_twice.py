"""Real training by scripts that create the files they write to: killed, restarted, and rehearsed."""

from __future__ import annotations

import json
import subprocess

import pytest

_TRAINING = """
import os, sys
from pathlib import Path
import numpy as np
import keras

{creates}

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
rng = np.random.default_rng(0)
x, y = rng.normal(size=(640, 8)).astype("float32"), rng.integers(0, 3, 640)
model.fit(x, y, batch_size=32, epochs=40, verbose=0)
np.savez(out / "weights.npz", **{{str(i): w for i, w in enumerate(model.get_weights())}})
log.write("done\\n")
log.close()
"""
CREATES = """
out = Path("out")
os.makedirs(out)
for part in ("logs", "plots"):
    (out / part).mkdir()
log = open(out / "log.txt", "x")
log.write("begun\\n")
log.flush()
"""
REFUSES = """
out = Path("out")
if out.exists() and any(out.iterdir()):
    sys.exit(f"{out} already exists and is not empty")
out.mkdir(exist_ok=True)
log = open(out / "log.txt", "w")
"""


@pytest.mark.slow
def test_training_resumes_in_folders_it_created(work, same_bits):
    work.write(_TRAINING.format(creates=CREATES))
    plain = work.plain("train.py")
    assert plain.returncode == 0, plain.stderr[-2000:]
    assert "FileExistsError" in work.plain("train.py").stderr
    (work.folder / "out").rename(work.folder / "plain")
    running = work.start("--checkpoint-every=50", "train.py")
    running.kill_at_step(170)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.summary["restarts"] == 1
    assert ours.summary["steps_repeated"] < 170, "it went on from a checkpoint"
    same_bits(work.folder / "out" / "weights.npz", work.folder / "plain" / "weights.npz")
    assert (work.folder / "out" / "log.txt").read_text() == "begun\ndone\n"
    assert sum("counts as created" in line for line in ours.said) == 3


@pytest.mark.slow
def test_script_that_refuses_a_restart_resumes_once_fixed(work):
    work.write(_TRAINING.format(creates=REFUSES))
    running = work.start("--checkpoint-every=50", "train.py")
    running.kill_at_step(170)
    ours = running.finish()
    assert ours.returncode == 93, ours.stderr[-3000:]
    assert ours.summary["faults"] == {"killed": 1, "not-restartable": 1}
    refusal = '`sys.exit(f"{out} already exists and is not empty")` ends with out already exists and is not empty;'
    assert f"train.py:10, {refusal}" in ours.summary["gave_up"]
    assert list((ours.folder / "checkpoints").glob("*step-*")) or list(ours.folder.glob("checkpoints/**/manifest.json"))
    work.write(_TRAINING.format(creates=REFUSES.replace("any(out.iterdir())", "False")))
    mended = work.oomph(f"--resume={ours.folder}", "train.py")
    assert mended.returncode == 0, mended.stderr[-3000:]
    assert any(event.data["steps"] >= 100 for event in mended.events("resumed"))


def rehearse(work, *words: str):
    done = subprocess.run(
        [work.python, "-m", "oomph", "rehearse", "--json", "--keep", "kept", *words],
        cwd=work.folder, env=work.environ(), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    return done, json.loads(done.stdout) if done.stdout else {}


@pytest.mark.slow
def test_rehearsal_finds_the_line_that_refuses_a_restart(work):
    work.write(_TRAINING.format(creates=REFUSES))
    done, report = rehearse(work, "--faults", "kill,abort", "train.py")
    assert done.returncode == 1, done.stderr
    assert "train.py:10, `sys.exit(" in report["not_restartable"]
    assert "then --resume" in report["not_restartable"]
    kill, abort = report["faults"]
    assert (kill["survived"], kill["named"], abort["survived"]) == ("no", ["not-restartable"], "not tried")
    text = subprocess.run(
        [work.python, "-m", "oomph", "rehearse", "--faults", "kill", "train.py"],
        cwd=work.folder, env=work.environ(), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert text.returncode == 3, "what the rehearsal has left is in the way of its first run now"
    assert "already exists" in text.stderr


@pytest.mark.slow
def test_rehearsal_lists_the_folders_it_left_behind(work):
    work.write(_TRAINING.format(creates=CREATES))
    done = subprocess.run(
        [work.python, "-m", "oomph", "rehearse", "--faults", "kill", "train.py"],
        cwd=work.folder, env=work.environ(), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same bits" in done.stdout
    told = " ".join(done.stdout.split())
    assert "left behind by the script, which would create it again: out; remove it before the real run" in told
