"""--profile: a trace of exactly the steps asked for, however the script trains, and the same bits as without."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oomph.report.profile_figures import figures_of
from oomph.report.recording import read_recording

_SCRIPT = """
import sys
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
if "xla" not in sys.argv:
    tf.config.experimental.enable_op_determinism()  # with it, Keras does not use XLA
x = np.random.normal(size=(320, 8)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, name="wide"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()

@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

how = sys.argv[2]
if how in ("fit", "xla"):
    model.compile(optimizer, "mse", jit_compile=how == "xla")
    model.fit(data, epochs=2, verbose=0)
elif how == "at-once":
    model.compile(optimizer, "mse", jit_compile=False, steps_per_execution=5)
    model.fit(data, epochs=2, verbose=0)
elif how == "loop":
    for epoch in range(2):
        for batch in data:
            step(*batch)
elif how == "steps":
    import oomph
    for batch in oomph.steps(data, epochs=2, state=[model, optimizer]):
        step(*batch)
else:
    model.compile(optimizer, "mse", jit_compile=False)
    for epoch in range(2):
        for batch in data:
            model.train_on_batch(*batch)
np.savez(sys.argv[1], **{str(i): np.asarray(v) for i, v in enumerate([*model.variables, *optimizer.variables])})
"""


def trained(work, how, window):
    ours = work.oomph(f"--profile={window}", "train.py", "ours.npz", how)
    assert ours.returncode == 0, ours.stderr[-3000:]
    return ours


@pytest.mark.parametrize(
    ("how", "window", "steps", "marks"),
    [
        ("fit", "17:23", (18, 23), 6),
        pytest.param("xla", "17:23", (18, 23), 6, marks=pytest.mark.slow),
        pytest.param("at-once", "17:23", (16, 25), 2, marks=pytest.mark.slow),
        ("loop", "17:23", (18, 23), 6),
        pytest.param("steps", "17:23", (18, 23), 6, marks=pytest.mark.slow),
        pytest.param("train_on_batch", "17:23", (18, 23), 6, marks=pytest.mark.slow),
        pytest.param("fit", "35:50", (36, 40), 5, marks=pytest.mark.slow),
    ],
)
def test_a_trace_has_the_steps_that_were_asked_for_and_the_bits_stay_the_same(
    work, same_bits, how, window, steps, marks
):
    work.write(_SCRIPT)
    assert work.plain("train.py", "plain.npz", how).returncode == 0
    ours = trained(work, how, window)
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    (saved,) = ours.events("profile-saved")
    assert (saved.fact.first, saved.fact.last) == steps
    assert saved.fact.cut == ("ended" if window == "35:50" else "")
    figures = figures_of((ours.folder / saved.fact.trace).read_bytes())
    assert figures.steps == marks
    assert figures.compiled == (how == "xla")
    assert how == "xla" or any("wide" in each.name for each in figures.operations)
    assert any(f"recorded steps {steps[0]} to {steps[1]}" in line for line in ours.said)
    words = [sys.executable, "-m", "oomph", "report", "--format", "md", "run"]
    told = subprocess.run(words, cwd=work.folder, capture_output=True, text=True, check=True, timeout=60)
    assert f"## Profile of steps {steps[0]} to {steps[1]}\n" in told.stdout


@pytest.mark.slow
def test_a_run_that_is_killed_in_the_window_records_the_rest_after_the_restart(work):
    work.write(_SCRIPT.replace("epochs=2, verbose=0)", "epochs=2, verbose=0, callbacks=[Kill()])").replace("how = ", """
class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        import os, signal
        if not os.path.exists("killed") and optimizer.iterations == 22:
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

how = """, 1))  # fmt: skip
    ours = work.oomph("--profile=15:25", "--checkpoint-every=5", "train.py", "ours.npz", "fit")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.attempt for event in ours.events("profile-started")] == [1, 2]
    (saved,) = ours.events("profile-saved")
    assert saved.attempt == 2
    (resumed,) = ours.events("resumed")
    assert (saved.fact.first, saved.fact.last) == (resumed.fact.steps + 1, 25)
    assert "oomph: attempt 1 ended while it was recorded: that trace is lost" in ours.said
    assert read_recording(ours.folder).profiles.missing == (
        "attempt 1 ended while it was recorded: that trace is lost",
    )


@pytest.mark.slow
def test_a_window_that_is_never_reached_is_told_at_the_end(work):
    work.write(_SCRIPT)
    ours = trained(work, "fit", "100:110")
    assert "oomph: nothing was recorded: the training ended after 40 steps, before step 101" in ours.said
    assert not (ours.folder / "profile").exists()
