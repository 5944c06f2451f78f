"""oomph rehearse on real training: each fault is injected and handled."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest


def rehearse(work, *words: str, seconds: float = 280):
    done = subprocess.run(
        [work.python, "-m", "oomph", "rehearse", "--json", "--keep", "kept", *words],
        cwd=work.folder, env=work.environ(), capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    return done, json.loads(done.stdout) if done.stdout else {}


def left_behind(work) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if process.info["cwd"] == str(work.folder) and sys.executable in (process.info["cmdline"] or []):
            found.append(" ".join(process.info["cmdline"]))
    return found


def test_rehearsed_kill_is_survived_and_its_cost_is_reported(work):
    work.script("one_fit.py")
    done, report = rehearse(work, "--faults", "kill", "one_fit.py", "out.npz")
    assert done.returncode == 0, done.stderr
    (kill,) = report["faults"]
    assert (report["steps"], report["at"], report["survives"]) == (40, 20, True)
    assert (kill["survived"], kill["named"], kill["restarts"], kill["result"]) == (
        "yes",
        ["killed"],
        1,
        "the same bits",
    )
    assert 0 < kill["steps_repeated"] <= 10
    assert report["label"] == {"after": "kill", "label": "verified", "reasons": [], "remedies": []}
    assert "rehearsal: kill: survived" in done.stderr
    assert not (work.folder / "out.npz").exists(), "the rehearsal ended before the script did"


EPOCHS = """
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.rand(80, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x.sum(1), batch_size=8, epochs=3)
"""


@pytest.mark.slow
def test_rehearsal_ending_at_an_epoch_boundary_reports_that_epochs_loss(work):
    work.write(EPOCHS, "epochs.py")
    done, report = rehearse(work, "--faults", "oom", "--steps", "20", "epochs.py")
    assert done.returncode == 0, done.stderr
    _, loss, _, undisturbed = report["faults"][0]["result"].replace(",", "").split()
    assert float(loss) == pytest.approx(float(undisturbed), rel=1e-4)
    assert float(undisturbed) > 1


LOOP = """
import keras, tensorflow as tf
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
for batch in tf.data.Dataset.range(400).batch(4).repeat():
    x = tf.random.normal((8, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rehearsed_kill_of_a_custom_loop_restarts_it_from_the_beginning(work):
    (work.folder / "loop.py").write_text(LOOP)
    done, report = rehearse(work, "--faults", "kill", "loop.py")
    assert (done.returncode, report["steps"], report["survives"]) == (1, 40, False), done.stderr
    assert report["faults"][0]["reason"] == "it finished, but trained again from the beginning"
    assert report["label"]["label"] == "unguarded"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_fault_except_a_hang_is_rehearsed_and_survived(work):
    work.script("one_fit.py")
    names = "oom,abort,nan,corrupt-checkpoint,disk-full,lost-gpu"
    done, report = rehearse(work, "--faults", names, "one_fit.py", "out.npz", seconds=500)
    verdicts = {verdict["fault"]: verdict for verdict in report["faults"]}
    lost = {name: verdict["reason"] for name, verdict in verdicts.items() if verdict["survived"] != "yes"}
    assert list(lost) == ["nan"], done.stderr
    assert "the state of step 15 is kept" in lost["nan"]
    assert done.returncode == 1
    assert verdicts["oom"]["named"] == ["device-oom"]
    assert verdicts["oom"]["restarts"] == 0
    bits = {name for name, verdict in verdicts.items() if verdict["result"] == "the same bits"}
    assert bits == {"abort", "corrupt-checkpoint", "disk-full", "lost-gpu"}
    assert verdicts["corrupt-checkpoint"]["steps_repeated"] > verdicts["abort"]["steps_repeated"]
    assert verdicts["disk-full"]["at_risk"] > 0
    assert left_behind(work) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_rehearsal_of_all_steps_runs_to_completion(work):
    work.script("one_fit.py")
    done, report = rehearse(work, "--steps", "all", "--faults", "kill", "one_fit.py", "out.npz", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert report["steps"] == 45
    assert report["faults"][0]["result"] == "the same bits"
    assert (work.folder / "out.npz").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_rehearsal_ends_a_run_that_hangs_forever(work):
    """The limit is below that of any hang detection, so only the rehearsal's own limit is left."""
    work.script("one_fit.py")
    done, report = rehearse(work, "--faults", "hang", "--limit", "20", "one_fit.py", "out.npz")
    assert done.returncode == 1
    assert report["faults"][0]["survived"] == "no"
    assert "nothing stopped the hang" in report["faults"][0]["reason"]
    assert left_behind(work) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_restart_only_training_does_not_survive_out_of_memory(work):
    work.script("one_fit.py")
    text = (work.folder / "one_fit.py").read_text()
    own = (
        "class Own(keras.Sequential):\n"
        "    def make_train_function(self, force=False):\n"
        "        return super().make_train_function(force)\n\n\n"
    )
    text = text.replace("class Pace", f"{own}class Pace").replace("model = keras.Sequential", "model = Own")
    work.write(text, "one_fit.py")
    done, report = rehearse(work, "--faults", "oom,kill", "one_fit.py", "out.npz")
    verdicts = {verdict["fault"]: verdict for verdict in report["faults"]}
    assert done.returncode == 1
    assert (verdicts["oom"]["survived"], verdicts["kill"]["survived"]) == ("no", "yes"), done.stderr
    assert "exit code 1" in verdicts["oom"]["reason"]


_TRAINING = """
import numpy as np
import keras
import tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.normal(size=(240, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
"""
_FIT = """
def averaging():
    total = 0.0
    for count in range(1, 10**9):
        total += yield total / count


class Own(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.mean = averaging()
        next(self.mean)

    def on_train_batch_end(self, batch, logs=None):
        self.mean.send(logs["loss"])


def samples():
    for number in range(15):
        yield x[16 * number :][:16], x[16 * number :][:16, :1]


model.compile("adam", "mse")
model.fit({data}, epochs=4, verbose=0, callbacks={callbacks})
"""
_LOOP = """
optimizer = keras.optimizers.Adam()
for epoch in range(4):
    for batch in tf.data.Dataset.from_tensor_slices(x).batch(16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch) - batch[:, :1]) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def label_of(work, text: str) -> tuple[dict, str]:
    work.write(_TRAINING + text)
    done, report = rehearse(work, "--faults", "kill", "train.py")
    assert report["label"], done.stderr
    return report["label"], report["faults"][0]["result"]


@pytest.mark.slow
def test_rehearsed_kill_reports_the_lost_state_and_a_remedy(work):
    label, _ = label_of(work, _FIT.format(data="x, x[:, :1], batch_size=16", callbacks="[Own()]"))
    assert (label["after"], label["label"]) == ("kill", "not-equal")
    (remedy,) = label["remedies"]
    assert remedy["reason"].startswith("callback Own.mean")
    assert "a generator that receives values through send()" in remedy["reason"]
    assert "write the generator as a class" in remedy["text"]


@pytest.mark.slow
def test_rehearsal_suggests_an_exact_alternative_to_replayed_generator_data(work):
    label, result = label_of(work, _FIT.format(data="samples(), steps_per_epoch=10", callbacks="None"))
    assert label["label"] == "replayed"
    assert "tf.data.Dataset of TensorFlow's own operations" in label["remedies"][0]["text"]
    assert "the position in the data cannot be saved: " in label["reasons"][0]
    assert result == "the same bits"


@pytest.mark.slow
def test_rehearsal_says_how_to_make_a_custom_loop_resumable(work):
    label, _ = label_of(work, _LOOP)
    assert label["label"] == "unguarded"
    assert "`for batch in oomph.steps(dataset, epochs=..., state=[model, optimizer]):`" in label["remedies"][0]["text"]
