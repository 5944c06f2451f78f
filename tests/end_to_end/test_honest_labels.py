"""Labels when nothing was restored: a script without a fit, and a fit killed before its first checkpoint."""

from __future__ import annotations

import pytest

NO_FIT = """
import os, signal
if not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
print("done")
"""
EARLY = """
import os, signal, keras, numpy as np
keras.utils.set_random_seed(1)
class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
x = np.zeros((96, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
model.fit(x, x[:, :1], batch_size=16, verbose=0, callbacks=[Kill()])
"""


def test_restarted_script_without_a_fit_is_labelled_unguarded(work):
    work.write(NO_FIT)
    ours = work.oomph("train.py")
    assert (ours.returncode, ours.stdout) == (0, "done\n"), ours.stderr[-3000:]
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("unguarded", 1)


@pytest.mark.slow
def test_restarted_fit_without_a_checkpoint_is_labelled_started_over(work):
    work.write(EARLY)
    ours = work.oomph("--checkpoint-every=1000", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("started-over", 1)


BY_ITSELF = EARLY.replace("batch == 3", "batch == 3 and self.epoch == 4").replace(
    "class Kill(keras.callbacks.Callback):",
    "class Kill(keras.callbacks.Callback):\n    def on_epoch_begin(self, epoch, logs=None): self.epoch = epoch",
)
FIRST_EPOCHS = {
    "BackupAndRestore": BY_ITSELF.replace(
        "callbacks=[", "epochs=6, callbacks=[keras.callbacks.BackupAndRestore('backup'), "
    ),
    "initial_epoch": BY_ITSELF.replace(
        "model.compile(",
        "first = 3 if os.path.exists('three.keras') else 0\n"
        "if first: model = keras.models.load_model('three.keras')\nelse: model.compile(",
    ).replace(
        "callbacks=[",
        "epochs=6, initial_epoch=first, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end="
        "lambda epoch, logs: epoch == 2 and model.save('three.keras')), ",
    ),
    "epoch alone": BY_ITSELF.replace(
        "model.compile(", "first = 3 if os.path.exists('three.keras') else 0\nmodel.compile("
    ).replace(
        "callbacks=[",
        "epochs=6, initial_epoch=first, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end="
        "lambda epoch, logs: epoch == 2 and model.save('three.keras')), ",
    ),
    "always": BY_ITSELF.replace("callbacks=[", "epochs=6, initial_epoch=2, callbacks=["),
}


@pytest.mark.parametrize(
    ("how", "steps", "repeated", "label"),
    [
        ("BackupAndRestore", 36, 4, "verified"),
        pytest.param("initial_epoch", 36, 10, "verified", marks=pytest.mark.slow),
        pytest.param("epoch alone", 36, 10, "not-equal", marks=pytest.mark.slow),
        pytest.param("always", 24, 16, "started-over", marks=pytest.mark.slow),
    ],
)
def test_self_resuming_script_is_labelled_by_what_it_resumed(work, how, steps, repeated, label):
    """In all four cases, the second attempt starts after epoch 1, but only the first two resume completely."""
    work.write(FIRST_EPOCHS[how])
    ours = work.oomph("--checkpoint-every=1000", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    found = ours.summary
    assert (found["steps"], found["steps_repeated"], found["exactness"]) == (steps, repeated, label)
    reasons = {"not-equal": ["resumed-itself"], "started-over": ["no-checkpoint"]}
    assert {reason["code"] for reason in found["reasons"]} >= {*reasons.get(label, [])}
    assert bool(found["reasons"]) is (label in reasons)
    assert ("the script resumed on its own at epoch" in ours.stderr) is (label != "started-over")
