"""Two computations of one step differ even without a fault: a resume is verified within that noise, not beyond it."""

from __future__ import annotations

import pytest


def killed(work, *options):
    work.script("noise.py")
    running = work.start("--checkpoint-every=8", "noise.py", "ours.npz", *options)
    running.kill_at_step(14)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


@pytest.mark.slow
def test_noise_is_measured_and_reported(work):
    ours = killed(work)
    assert ours.summary["exactness"] == "verified", ours.summary["exactness_reasons"]
    (reason,) = ours.summary["exactness_reasons"]
    assert "within this training's own noise of" in reason
    assert any(0 < event.data["noise"] < 1e-5 for event in ours.events("compared"))


@pytest.mark.slow
def test_difference_beyond_the_noise_is_labelled_not_equal(work):
    ours = killed(work, "--other")
    assert ours.summary["exactness"] == "not-equal"
    assert any("the same batch gives a different result" in reason for reason in ours.summary["exactness_reasons"])


DENSE = """
import sys, time, keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(960, 30)).astype("float32")
hidden = [keras.layers.Dense(60, "tanh") for _ in range(3)]
model = keras.Sequential([keras.Input((30,)), *hidden, keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.001), "mse", jit_compile=False)
pace = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.02))
model.fit(x, x[:, :1], batch_size=96, epochs=4, verbose=0, callbacks=[pace])
"""


@pytest.mark.slow
def test_differently_divided_batches_verify_within_the_noise(work):
    """As after an out-of-memory error between two attempts: sums are computed in a different order."""
    work.write(DENSE)
    running = work.start("--checkpoint-every=8", "train.py")
    running.wait_for_step(14)
    running.kill(running.process.pid)
    running.kill(running.script_pid(1))
    running.finish()
    ours = work.oomph("--resume=run", "--micro-batch=37", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.summary["exactness"] == "verified", ours.summary["exactness_reasons"]
    assert any(0 < event.data["noise"] < 1e-5 for event in ours.events("compared"))
