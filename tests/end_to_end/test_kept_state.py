"""Other training state: callbacks, layers, large models saved while training continues, and NaN."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("keeps_state.py")


@pytest.fixture(scope="module")
def killed(shared, plain):
    """Killed in the sixth of up to ten epochs of eight steps, between two checkpoints."""
    running = shared.start("--checkpoint-every=7", "keeps_state.py", "ours.npz")
    running.kill_at_step(45)
    return running.finish()


@pytest.mark.slow
def test_callback_and_layer_state_is_restored_after_a_kill(shared, killed, plain, same_bits):
    assert killed.returncode == 0, killed.stderr[-3000:]
    assert killed.summary["restarts"] == 1
    assert killed.summary["exactness"] == "verified"
    same_bits(shared.folder / "ours.npz", plain)


def test_callback_without_declared_state_is_restored(shared, killed, plain, load):
    ours, theirs = load(shared.folder / "ours.npz"), load(plain)
    assert int(ours["epochs"]) == int(theirs["epochs"]) == len(theirs["loss"])
    assert not [line for line in killed.said if "begins anew" in line or "not restored" in line]
    assert [event.data["lost"] for event in killed.events("resumed")] == [[]]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param((), id="graph", marks=pytest.mark.slow),
        pytest.param(("--eager",), id="eagerly", marks=pytest.mark.slow),
        pytest.param(("--own-function",), id="own function", marks=pytest.mark.slow),
    ],
)
def test_every_optimizer_state_is_restored(work, kind, same_bits):
    """Killed in the 80-step first fit, and in the second, where the first fit's end state is restored."""
    work.script("gan.py")
    expected = work.plain("gan.py", "plain.npz", *kind)
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start("--checkpoint-every=7", "gan.py", "ours.npz", *kind)
    running.kill_at_step(45)
    running.kill_at_step(95, attempt=2)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.data["kind"] for event in ours.events("resumed")] == ["exact", "finished", "exact"]
    assert ours.summary["exactness"] == "verified"
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


@pytest.mark.slow
def test_kill_during_a_large_checkpoint_loses_only_that_checkpoint(work, same_bits):
    wide = ["--width", "150000"]  # 18 MB
    work.script("keeps_state.py")
    expected = work.plain("keeps_state.py", "plain.npz", *wide)
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start("--checkpoint-every=7", "keeps_state.py", "ours.npz", *wide)
    running.wait_for(lambda: running.journal("checkpoint"))
    running.kill_when(lambda: list(running.folder.glob("checkpoints/tmp-*/tensors.bin")))
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    written = [event.data for event in ours.events("checkpoint") if event.data["name"].startswith("step")]
    assert all(data["background_seconds"] > 0 for data in written)
    assert ours.events("checkpoint-refused") == []
    assert not list(ours.folder.glob("checkpoints/*"))


_TURNS_NAN = """
import keras, numpy as np, sys
keras.utils.set_random_seed(1)
x = np.random.normal(size=(160, 4)).astype("float32")

class Poison(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 23:
            self.model.layers[0].kernel.assign(np.full((4, 8), np.nan))
        if self.model.optimizer.iterations == 35 and "fails" in sys.argv:
            raise RuntimeError("its own")

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], epochs=4, batch_size=16, verbose=0, callbacks=[Poison()])
print("finished")
"""


@pytest.mark.slow
def test_non_finite_state_never_replaces_the_last_finite_one(work):
    work.write(_TURNS_NAN)
    ours = work.oomph("--checkpoint-every=5", "train.py", "fails")
    assert ours.returncode == 1
    assert "RuntimeError: its own" in ours.own
    steps = [event.data["steps"] for event in ours.events("checkpoint")]
    assert max(steps) == 20
    kept = [event.data["kept"] for event in ours.events("checkpoint-skipped")]
    assert kept == ["the checkpoint of step 20"] * 2
    said = [line for line in ours.said if "NaN or infinity" in line]
    assert len(said) == 1
    assert (
        "kernel has NaN or infinity at epoch 3, step 5: this state is not saved; the checkpoint of step 20" in said[0]
    )
    assert len(list(ours.folder.glob("checkpoints/step-*-epoch2-step0"))) == 1


@pytest.mark.slow
def test_non_finite_end_state_is_kept_alongside_the_last_finite_one(work):
    work.write(_TURNS_NAN + "sys.exit(3)\n")
    ours = work.oomph("--checkpoint-every=5", "train.py")
    assert (ours.returncode, ours.stdout) == (3, "finished\n")
    kept = sorted(path.name.partition("-epoch")[0] for path in ours.folder.glob("checkpoints/*"))
    assert kept == ["finished-fit0", "step-000003-fit0", "step-000004-fit0"]


@pytest.mark.slow
def test_fit_ending_with_nan_is_reported_as_a_fault(work):
    """No checkpoint is due that could have captured the NaN, and the end state may be too expensive to keep."""
    work.write(
        "import keras, numpy as np\nx = np.ones((64, 4), 'float32')\ny = x[:, :1].copy()\ny[5] = np.nan\n"
        "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', jit_compile=False)\nmodel.fit(x, y, epochs=2, batch_size=16, verbose=0)\n"
    )
    ours = work.oomph("train.py")
    assert ours.returncode == 0
    assert ours.summary["faults"] == {"nan-loss": 1}
    assert any("has NaN or infinity at epoch 2" in line and "the fit ended in this" in line for line in ours.said)
    assert any("the result     not finite" in line for line in ours.said)
    for journal in ours.folder.glob("journal/*"):
        for line in journal.read_text().splitlines():
            json.loads(line, parse_constant=pytest.fail)  # NaN is not valid JSON
