"""Scripts of Keras 2 train as in plain Python, and each part of oomph says that it does not guard them."""

from __future__ import annotations

import importlib.util
import subprocess

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tf_keras") is None, reason="needs tf_keras")

_MODEL = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import oomph
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
"""
_FIT = """
model.compile("adam", "mse")
model.fit(x, y, epochs=2, verbose=0, callbacks=[oomph.Monitor()])
for look in (lambda: oomph.plan(model, x), lambda: oomph.check(model, x, y)):
    try:
        look()
    except Exception as error:
        print(type(error).__name__, error)
"""
_LOOP = """
optimizer = tf.keras.optimizers.legacy.Adam()
losses = []
for _ in oomph.steps(range(5), state=[model, optimizer]):
    with tf.GradientTape() as tape:
        losses.append(tf.reduce_mean((model(x) - y) ** 2))
    gradients = tape.gradient(losses[-1], model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print(float(losses[-1]))
"""
_UNGUARDED = "trains with Keras 2, supervised only: no micro-batches, no checkpoints"


def test_fit_is_monitored_but_neither_planned_nor_checked(work):
    ended = work.oomph(work.write(_MODEL + _FIT))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("ExamineError the model is one of Keras 2, which oomph cannot examine") == 2
    assert f"unguarded: train.py:13 {_UNGUARDED}" in ended.stderr


def test_loop_with_a_legacy_optimizer_is_not_called_resumable(work):
    script = work.write(_MODEL + _LOOP)
    plain, ended = work.plain(script), work.oomph(script)
    assert (ended.returncode, ended.stdout) == (0, plain.stdout), ended.stderr
    assert "state[0] (Sequential) belongs to Keras 2, which oomph.steps cannot save: no checkpoints" in ended.stderr
    assert _UNGUARDED in ended.stderr
    assert "resumable" not in ended.stderr


def test_rehearsal_says_why_it_saw_no_steps(work):
    words = [work.python, "-m", "oomph", "rehearse", work.write(_MODEL + _FIT)]
    done = subprocess.run(words, cwd=work.folder, env=work.environ(), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("trains with Keras 2, which oomph cannot rehearse")) == (3, 1)
