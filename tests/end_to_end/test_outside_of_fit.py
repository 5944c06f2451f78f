"""Running out of memory outside a fit's batches: evaluate, predict, custom loops, plain eager code."""

from __future__ import annotations

import numpy as np
import pytest

TOLERANCE = 1e-12


def largest_difference(load, ours, plain) -> float:
    mine, theirs = load(ours), load(plain)
    assert set(mine) == set(theirs)
    assert all(mine[name].shape == theirs[name].shape for name in theirs)
    return max((abs(mine[name] - theirs[name]) / np.maximum(1, abs(theirs[name]))).max() for name in theirs)


@pytest.mark.slow
def test_evaluate_and_predict_are_divided_without_dividing_training(work, load, memory):
    work.script("outside.py")
    assert work.plain("outside.py", "plain.npz").returncode == 0
    ours = work.oomph("outside.py", "ours.npz", env=memory(80))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert largest_difference(load, work.folder / "ours.npz", work.folder / "plain.npz") <= TOLERANCE
    ooms = [event.data["during"] for event in ours.events("oom")]
    assert set(ooms) == {"evaluate", "predict"}
    assert max(ooms.count("evaluate"), ooms.count("predict")) <= 2
    assert ours.summary["exactness"] == "exact"
    assert [event.fact.micro_batch for event in ours.events("fit-finished")] == [None], "training was not divided"


@pytest.mark.parametrize("jit", [[], pytest.param(["--jit"], marks=pytest.mark.slow)], ids=["graph", "xla"])
def test_guarded_loop_survives_real_errors(work, load, memory, jit):
    work.script("loop.py")
    assert work.plain("loop.py", "plain.npz", *jit).returncode == 0
    ours = work.oomph("loop.py", "ours.npz", "--guard", *jit, env=memory(36 if jit else 22))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert largest_difference(load, work.folder / "ours.npz", work.folder / "plain.npz") <= TOLERANCE
    assert 1 <= len(ours.events("oom")) <= 2
    assert [event.data["kind"] for event in ours.events("probed")] == ["exact"]
    assert ours.summary["steps"] == 6


@pytest.mark.slow
def test_undisturbed_guarded_loop_gives_identical_results(work, same_bits):
    work.script("loop.py")
    assert work.plain("loop.py", "plain.npz").returncode == 0
    assert work.plain("loop.py", "ours.npz", "--guard").returncode == 0
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


def test_unguarded_loop_is_watched_and_reported(work):
    work.script("loop.py")
    ours = work.oomph("loop.py", "ours.npz")
    assert ours.returncode == 0
    (seen,) = ours.events("loop-seen")
    assert seen.data["site"].startswith("loop.py:")
    assert ours.summary["steps"] == 6
    assert any("a custom loop, which a restart starts over" in line and "@oomph.guard" in line for line in ours.said)


WITHIN_A_FIT = """
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
def new_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model

class Other(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.other = new_model()

    def on_epoch_end(self, epoch, logs=None):
        self.other.train_on_batch(x, x[:, :1])
        weights = self.other.trainable_variables
        self.other.optimizer.apply([weight * 0 for weight in weights], weights)

new_model().fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0, callbacks=[Other()])
"""


@pytest.mark.slow
def test_training_inside_a_callback_is_not_reported_as_a_separate_loop(work):
    work.write(WITHIN_A_FIT)
    ours = work.oomph("train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert not ours.events("loop-seen")
    assert (ours.summary["steps"], ours.summary["exactness"]) == (8, "exact")
    assert "finished without a fault" in ours.said[-1]


ON_BATCHES = """
import keras, numpy as np
x = np.zeros((8, 3), "float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
for _ in range(3):
    model.train_on_batch(x, x[:, :1])
"""


def test_train_on_batch_is_reported_as_recovered_but_not_checkpointed(work):
    work.write(ON_BATCHES)
    ours = work.oomph("train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.data["site"] for event in ours.events("trained-outside-fit")] == ["train.py:7"]
    assert ours.summary["exactness"] == "unguarded"
    assert ours.said[-2].startswith("oomph: finished, ")
    assert ours.said[-1].startswith("oomph: train.py:7 trains outside a resumable fit: batches that do ")


ABORTED_LOOP = """
import os, sys, keras, numpy as np, tensorflow as tf
optimizer = keras.optimizers.SGD(0.1)
w = tf.Variable(np.ones(3, "float32"))
optimizer.build([w])
saver = tf.train.Checkpoint(w=w, optimizer=optimizer)
keeps, first = "--keeps" in sys.argv, not os.path.exists("died")
if keeps and not first:
    saver.restore("kept-1")
for i in range(int(optimizer.iterations.numpy()), 12):
    if i == 5 and first:
        saver.save("kept")
        open("died", "w").close()
        os.abort()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w * w)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "repeated"), [([], 5), (["--keeps"], 0)])
def test_repeated_steps_of_an_unguarded_loop_are_counted(work, options, repeated):
    work.write(ABORTED_LOOP)
    ours = work.oomph("train.py", *options)
    assert ours.returncode == 0, ours.stderr[-3000:]
    told = ours.summary
    assert (told["steps"], told["steps_repeated"], told["restarts"]) == (12, repeated, 1)
    assert told["exactness"] == "unguarded"
    assert any("in a training loop (5 steps done, 0 saved)" in line for line in ours.said)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "line"), [([], 11), (["--graph"], 15)])
def test_out_of_memory_caught_by_the_script_is_only_recorded(work, memory, options, line):
    work.script("eager.py")
    ours = work.oomph("eager.py", *options, env=memory(60))
    assert (ours.returncode, ours.stdout) == (0, "caught ResourceExhaustedError\ntrained 5\n")
    (oom,) = ours.events("oom")
    assert oom.data["phase"] == "elsewhere"
    assert oom.data["site"] == f"eager.py:{line}"
    assert oom.data["requested_bytes"] == 640_000_000
    assert ours.summary["faults"] == {"device-oom": 1}
    assert ours.summary["steps"] == 5


@pytest.mark.slow
def test_verify_compares_with_plain_keras_without_changing_the_result(work, same_bits):
    work.script("sparse.py")
    assert work.plain("sparse.py", "plain.npz").returncode == 0
    ours = work.oomph("--verify=3", "sparse.py", "ours.npz")
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    (verified,) = ours.events("verified")
    assert (verified.data["steps"], verified.data["weights"], verified.data["logs"]) == (3, 0, 0)
    divided = work.oomph("--verify=3", "--micro-batch=13", "sparse.py", "divided.npz", run="divided")
    (verified,) = divided.events("verified")
    assert verified.data["steps"] == 3
    assert 0 < verified.data["weights"] <= TOLERANCE


@pytest.mark.slow
def test_micro_batch_grows_back_once_memory_is_free_again(work, memory):
    work.script("freed.py")
    ours = work.oomph("freed.py", env=memory(28))
    assert ours.returncode == 0, ours.stderr[-3000:]
    (recovered,) = ours.events("recovered")
    (finished,) = ours.events("fit-finished")
    assert len(ours.events("oom")) == 1
    assert finished.fact.micro_batch is None or finished.fact.micro_batch > recovered.fact.micro_batch
