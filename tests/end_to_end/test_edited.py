"""The script is edited between a run and its resume."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

EPOCHS = ["--epochs", "4"]  # of 15 steps
WIDER = ("keras.layers.Dense(64", "keras.layers.Dense(65")


@pytest.fixture
def stopped(work):
    """A run of one_fit.py that was killed together with oomph after two checkpoints."""
    work.script("one_fit.py")
    running = work.start("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    running.wait_for_step(16)
    pid = running.script_pid(1)
    os.kill(running.process.pid, signal.SIGSTOP)
    running.kill(pid)
    running.kill(running.process.pid)
    running.process.communicate(timeout=60)
    return running


def edit(work, *pairs: tuple[str, str]) -> None:
    text = (work.folder / "one_fit.py").read_text()
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    work.write(text, "one_fit.py")


def resume(work, stopped, *words: str):
    words = words or tuple(EPOCHS)
    return work.oomph(f"--resume={stopped.folder}", "--checkpoint-every=7", "one_fit.py", "ours.npz", *words)


def test_edited_model_is_refused_and_its_checkpoints_are_kept(work, stopped):
    before = sorted(path.name for path in stopped.folder.glob("checkpoints/*"))
    edit(work, WIDER)
    ours = resume(work, stopped)
    assert ours.returncode == 93
    assert ours.stdout == ""
    assert ours.own == "", "no traceback of ours"
    (refusal,) = [line for line in ours.said if "cannot be resumed" in line]
    assert "one_fit.py was edited" in refusal
    assert re.search(r"weights of layer \d: float32\[8, 64\], float32\[64\] → float32\[8, 65\]", refusal)
    assert sorted(path.name for path in stopped.folder.glob("checkpoints/*")) == before


@pytest.mark.slow
def test_resuming_with_fewer_epochs_returns_the_saved_state_without_losing_it(work, load, same_bits):
    """The second start asks for one epoch by mistake; the third asks for four again."""
    plain = work.undisturbed("one_fit.py", *EPOCHS)
    running = work.start("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    running.wait_for_step(30)
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.finish().returncode == 75
    before = sorted(path.name for path in running.folder.glob("checkpoints/step-*"))

    fewer = resume(work, running, "--epochs", "1")
    assert fewer.returncode == 0, fewer.stderr[-3000:]
    iterations = [value for value in load(work.folder / "ours.npz").values() if value.dtype == "int64"]
    assert iterations == [fewer.events("resumed")[0].data["steps"]]
    assert fewer.summary["exactness"] == "not-equal"
    assert "epochs: 4 → 1" in fewer.summary["exactness_reasons"]
    assert any("the saved state is returned" in line for line in fewer.said)
    assert any(line.startswith("oomph: kept ") and before[-1] in line for line in fewer.said)
    assert sorted(path.name for path in running.folder.glob("checkpoints/*")) == before

    ours = resume(work, running)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert not (running.folder / "checkpoints").exists()


@pytest.mark.slow
def test_run_resumes_after_the_edit_is_undone(work, stopped):
    edit(work, WIDER)
    assert resume(work, stopped).returncode == 93
    edit(work, WIDER[::-1])
    again = resume(work, stopped)
    assert again.returncode == 0, again.stderr[-3000:]
    assert [event.data["kind"] for event in again.events("resumed")] == ["exact"]
    assert again.events("resumed")[0].data["changes"] == []


@pytest.mark.slow
def test_changes_are_reported_and_a_new_learning_rate_is_used(work, stopped, load):
    edit(work, ('model.compile("adam"', "model.compile(keras.optimizers.Adam(1e-4, beta_1=0.8)"))
    ours = resume(work, stopped, "--epochs", "5")
    assert ours.returncode == 0, ours.stderr[-3000:]
    (said,) = [line for line in ours.said if "since the checkpoint" in line]
    for change in (
        "one_fit.py was edited", "arguments of the script: ours.npz --epochs 4 → ours.npz --epochs 5",
        "epochs: 4 → 5", "beta_1: 0.9 → 0.8", "learning rate: 0.001 → 0.0001",
    ):  # fmt: skip
        assert change in said
    assert [event.data["kind"] for event in ours.events("resumed")] == ["exact"]
    saved = load(work.folder / "ours.npz")
    assert len(saved["loss"]) == 5
    rates = [value for value in saved.values() if value.shape == () and value.dtype == "float32"]
    assert any(value == pytest.approx(1e-4) for value in rates)


@pytest.mark.slow
def test_changed_data_restarts_the_interrupted_epoch(work, stopped):
    edit(work, ("size=(240, 8)", "size=(160, 8)"))
    ours = resume(work, stopped)
    assert ours.returncode == 0, ours.stderr[-3000:]
    (resumed,) = ours.events("resumed")
    assert resumed.data["kind"] == "epoch"
    assert any("batches in an epoch: 15 → 10" in line for line in ours.said)
    # The interrupted epoch and the two after it have ten batches each, in addition to the steps in the checkpoint.
    assert ours.summary["steps"] == resumed.data["steps"] + 10 * (4 - resumed.data["epoch"])
    assert ours.summary["exactness"] == "not-equal"
    assert "the interrupted epoch was restarted" in ours.summary["exactness_reasons"]


@pytest.mark.slow
def test_rewritten_fit_call_is_reported_and_starts_over(work, stopped):
    edit(work, ("batch_size=16", "batch_size=8 * 3"))
    ours = resume(work, stopped)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.events("resumed") == []
    assert any("trains from the beginning: the checkpoints belong to a different fit" in line for line in ours.said)
    assert ours.summary["exactness"] == "not-equal"
    assert ours.summary["exactness_reasons"] == ["fit 1 was started by an earlier attempt, but not reached again"]


@pytest.mark.slow
@pytest.mark.parametrize("schema", [2, 99])
def test_run_with_checkpoints_in_another_format_is_refused_and_left_unchanged(work, stopped, schema):
    for manifest in stopped.folder.glob("checkpoints/step-*/manifest.json"):
        document = json.loads(manifest.read_text()) | {"schema": schema, "oomph": "9.0"}
        manifest.write_text(json.dumps(document))
        sums = subprocess.run(
            "sha256sum $(ls | grep -v SHA256SUMS)", shell=True, cwd=manifest.parent, capture_output=True, timeout=60
        )
        (manifest.parent / "SHA256SUMS").write_bytes(sums.stdout)
    before = sorted(path.name for path in stopped.folder.glob("checkpoints/*"))
    ours = resume(work, stopped)
    assert ours.returncode == 2
    assert ours.stderr.count("\n") == 1
    assert f"saved by oomph 9.0 in format {schema}; this version (" in ours.stderr
    assert sorted(path.name for path in stopped.folder.glob("checkpoints/*")) == before


GENERATED = """
import sys, time
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
x = np.random.normal(size=(160, 4)).astype("float32")[:int(sys.argv[1])]
def batches():
    for row in range(0, len(x), 8):
        time.sleep(0.02)
        yield x[row:row + 8], x[row:row + 8, :1]
spec = tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
model.fit(tf.data.Dataset.from_generator(batches, output_signature=spec), epochs=1, verbose=0)
print("done")
"""


@pytest.mark.slow
def test_run_is_not_resumed_if_its_generator_ends_before_the_saved_position(work):
    """The data's length is unknown until it is exhausted, so no step is reached that would restore the checkpoint."""
    work.write(GENERATED)
    running = work.start("--checkpoint-every=5", "train.py", "160")
    running.wait_for_step(12)
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.finish().returncode == 75
    before = sorted(path.name for path in running.folder.glob("checkpoints/*"))
    ours = work.oomph(f"--resume={running.folder}", "--checkpoint-every=5", "train.py", "24")
    assert ours.returncode == 93, ours.stderr[-3000:]
    assert ours.stdout == ""
    assert any("the data runs out before" in line for line in ours.said)
    assert sorted(path.name for path in running.folder.glob("checkpoints/*")) == before
