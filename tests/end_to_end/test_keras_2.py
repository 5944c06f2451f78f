"""Scripts of Keras 2: their steps are guarded, and each part of oomph that does not support it says so."""

from __future__ import annotations

import importlib.util
import subprocess
from importlib.metadata import version

import pytest

IS_KERAS_2 = version("keras").startswith("2.")
pytestmark = pytest.mark.skipif(
    not IS_KERAS_2 and importlib.util.find_spec("tf_keras") is None, reason="needs tf_keras"
)

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
_BESIDE_KERAS_3 = """
import keras
import numpy as np
import tf_keras

x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
for each in (tf_keras, keras):
    each.utils.set_random_seed(3)
    model = each.Sequential([each.layers.Input((4,)), each.layers.Dense(8, "tanh"), each.layers.Dense(1)])
    model.compile("adam", "mse")
    print(*model.fit(x, y, epochs=2, verbose=0).history["loss"])
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
_GUARDED = "guarding the steps of Keras 2: a batch that does not fit is divided, but nothing is checkpointed"
_SHORT_OF_MEMORY = """
import sys
if "--short" in sys.argv:
    from oomph.testing import OutOfMemory, injecting
    short = injecting(OutOfMemory(samples=20, after=1))
    short.__enter__()
model.add(tf.keras.layers.Dropout(0.3))
model.add(tf.keras.layers.Dense(1))
model.compile("adam", "mse", metrics=["mae"])
fitted = model.fit(x, y, batch_size=32, epochs=2, verbose=0, validation_data=(x, y))
print(*[number for numbers in fitted.history.values() for number in numbers])
"""


def test_fit_is_monitored_but_neither_planned_nor_checked(work):
    ended = work.oomph(work.write(_MODEL + _FIT))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("ExamineError the model is one of Keras 2, which oomph cannot examine") == 2
    assert _GUARDED in ended.stderr
    assert _UNGUARDED not in ended.stderr
    assert "train.py:13 trains with Keras 2: batches that do not fit are split where possible" in ended.stderr
    assert (ended.summary["exactness"], ended.returncode) == ("unguarded", 0)


@pytest.mark.slow
@pytest.mark.skipif(IS_KERAS_2, reason="needs Keras 3")
def test_each_model_of_a_script_with_both_keras_gets_what_its_own_supports(work):
    script = work.write(_BESIDE_KERAS_3)
    plain, ended = work.plain(script), work.oomph(script)
    assert (ended.returncode, ended.stdout) == (0, plain.stdout), ended.stderr
    assert [event.data["site"] for event in ended.events("fit-started")] == ["train.py:11"]
    assert [event.data["kind"] for event in ended.events("trained-outside-fit")] == ["keras-2"]
    assert _GUARDED in ended.stderr


@pytest.mark.slow
def test_batch_that_does_not_fit_is_divided_with_the_numbers_of_plain_keras(work):
    script = work.write(_MODEL + _SHORT_OF_MEMORY)
    plain, ended = work.plain(script), work.oomph(script, "--short")
    assert ended.returncode == 0, ended.stderr
    figures = [[float(word) for word in each.stdout.split()] for each in (ended, plain)]
    assert figures[0] == pytest.approx(figures[1], rel=1e-5)
    assert [probe.data["kind"] for probe in ended.events("probed")] == ["exact"]
    assert [recovery.data["batch"] for recovery in ended.events("recovered")] == [32]
    assert "the train step now splits its batch of 32 into micro-batches of" in ended.stderr


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
