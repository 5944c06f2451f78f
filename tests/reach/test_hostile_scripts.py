"""No script gets past the examined training, whatever surrounds it. Real Keras and real processes."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="no TensorFlow")

MODEL = """
import numpy as np, keras
def made():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="small")
    model.compile("adam", "mse")
    return model
X, Y = np.zeros((32, 4), "float32"), np.zeros((32, 2), "float32")
def past(name): open(name, "w").close()
"""

SWALLOWS = (
    """
import atexit, signal, sys
print("before the training")
"""
    + MODEL
    + """
atexit.register(past, "atexit")
signal.signal(signal.SIGALRM, lambda *args: past("alarm"))
signal.signal(signal.SIGTERM, lambda *args: past("term"))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def search():
    best = None
    for trial in range(3):
        try:
            best = made().fit(X, Y, batch_size=8, epochs=2, verbose=0)
        except KeyboardInterrupt:
            past("interrupt")
        except:
            past("except")
        finally:
            past("finally")
    return best
if __name__ == "__main__":
    signal.setitimer(signal.ITIMER_REAL, 0)
    search()
    past("after")
"""
)
THREADS = (
    MODEL
    + """
import threading
from concurrent.futures import ThreadPoolExecutor
def objective(trial):
    try:
        made().fit(X, Y, verbose=0)
    finally:
        past("finally")
if __name__ == "__main__":
    background = threading.Thread(target=objective, args=(0,), daemon=True)
    background.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(objective, range(4)))
    past("after")
"""
)
FORKS = (
    MODEL
    + """
import multiprocessing, os
def work(number):
    try:
        made().fit(X, Y, verbose=0)
    finally:
        past("finally")
if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        import time; time.sleep(60)
    process = multiprocessing.get_context("fork").Process(target=work, args=(1,))
    process.start()
    process.join()
    past("after")
"""
)
STARTS_ANOTHER = (
    """
import os, subprocess, sys
if sys.argv[1:] == []:
    os.execv(sys.executable, [sys.executable, "train.py", "again"])
if sys.argv[1:] == ["again"]:
    os.closerange(3, 64)
    done = subprocess.run([sys.executable, "train.py", "worker"], start_new_session=True)
    open("after", "w").close()
"""
    + MODEL
    + """
model = made()
for step in range(3):
    model.train_on_batch(X, Y)
past("after the worker")
"""
)
LOOP = (
    MODEL
    + """
import tensorflow as tf
def main():
    model, optimizer = made(), keras.optimizers.SGD(name="plain")
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    larger = keras.Sequential([keras.Input((4,)), model, keras.layers.Dense(1)], name="larger")
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss
    try:
        for _ in range(2):
            step(tf.constant(X), tf.constant(Y))
    except BaseException:
        past("except")
main()
past("after")
"""
)
SEVERAL = (
    MODEL
    + """
model = made()
for fold in range(3):
    model.fit(X, Y, verbose=0)
    past(f"fold {fold}")
"""
)


def two(scripts, first, second, **options):
    """Return the outcomes of two scripts that run at the same time."""
    begun = [scripts.start(text, **options) for text in (first, second)]
    return [scripts.finish(each) for each in begun]


@pytest.mark.slow
def test_code_around_an_intercepted_fit_does_not_run_and_no_process_remains(scripts):
    swallows = scripts.reach(SWALLOWS, "train.py", "--own", "argument", arguments={"a": [1]})
    assert swallows.kind == "", swallows.reason
    seen = swallows.document
    assert (seen["kind"], seen["model"], seen["x"], seen["batch_size"]) == ("fit", "small", [32, 4], 8)
    assert (seen["optimizer"], seen["function"], seen["site"]) == ("adam", "search", "train.py:21")
    assert {"x", "y", "epochs", "shuffle"} <= set(seen["given"])
    assert seen["argv"] == ["--own", "argument"]
    assert seen["arguments"] == {"a": [1]}
    assert len(seen["long"]) == 20_000  # longer than a line in the pipe
    assert swallows.files == set()
    assert "before the training" in swallows.stderr  # its stdout goes to our stderr
    assert "oneDNN" not in swallows.stderr  # TensorFlow's start-up output is not shown


def test_fit_in_a_thread_or_child_process_is_intercepted(scripts):
    threads, forks = two(scripts, THREADS, FORKS)
    for outcome in (threads, forks):
        assert outcome.kind == "", outcome.reason
        assert outcome.document["kind"] == "fit"
        assert outcome.files == set()


def test_worker_in_another_session_and_custom_loop_are_reached(scripts):
    worker, loop = two(scripts, STARTS_ANOTHER, LOOP)
    assert worker.kind == "", worker.reason
    assert worker.document["kind"] == "train_on_batch"
    assert worker.document["argv"] == ["worker"]
    assert loop.kind == "", loop.reason
    assert (loop.document["kind"], loop.document["model"]) == ("custom loop", "small")
    assert (loop.document["optimizer"], loop.document["function"].split(".")[-1]) == ("plain", "main")
    assert loop.document["trained"] == 0.0  # the examiner runs outside the trace of the step
    assert loop.document["given"] == ["grads", "trainable_variables"]
    assert worker.files == loop.files == set()


@pytest.mark.slow
def test_fits_before_the_requested_one_run_for_real(scripts):
    third, fourth = (
        scripts.finish(begun)
        for begun in [scripts.start(SEVERAL, fit=3, examiner="examiners:trains"), scripts.start(SEVERAL, fit=4)]
    )
    assert third.files == {"fold 0", "fold 1"}
    assert third.kind == "", third.reason
    assert third.document["loss"] == 0.0
    assert [training["kind"] for training in third.before] == ["fit", "fit"]
    assert "training call 2 (fit at train.py:12) runs for real because of --fit 3" in third.stderr
    assert fourth.kind == "no training"
    assert "after 3 training calls" in fourth.reason


def test_failing_examiners_error_is_quoted_and_a_killed_examiner_is_detected(scripts):
    fails, dies = (
        scripts.finish(begun)
        for begun in [scripts.start(SWALLOWS, examiner=f"examiners:{name}") for name in ("fails", "dies")]
    )
    assert fails.kind == dies.kind == "examiner"
    assert fails.reason == "the examination at train.py:21 failed: ValueError: this model is not for me"
    assert dies.reason == (
        "the process being examined at train.py:21 was killed by SIGKILL, as happens when the machine runs out of "
        "memory: if so, use a machine with more memory, or a smaller model"
    )
    assert fails.files == dies.files == set()


UNDER_A_STRATEGY = (
    MODEL
    + """
import tensorflow as tf
strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
with strategy.scope():
    model = made()
model.fit(X, Y, verbose=0, batch_size=16)
past("first")
free, optimizer = made(), keras.optimizers.SGD(name="plain")
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((free(X, training=True) - Y) ** 2)
    optimizer.apply(tape.gradient(loss, free.trainable_variables), free.trainable_variables)
    past("step")
model.fit(X, Y, verbose=0, batch_size=16)
past("after")
"""
)


def test_steps_under_one_strategy_count_as_one_training_run(scripts):
    third = scripts.reach(UNDER_A_STRATEGY, fit=3)
    assert third.kind == "", third.reason
    assert [(each["kind"], each["site"]) for each in third.before] == [
        ("fit", "train.py:14"),
        ("custom loop", "train.py:20"),
    ]
    assert third.document["site"] == "train.py:22"
    assert third.files == {"first", "step"}
