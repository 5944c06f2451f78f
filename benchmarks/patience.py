"""Hangs at their real limits: oomph must detect one within its limit, and must not end a script that is only slow.

    python benchmarks/patience.py [--jobs 2] [--alive]

* lock: steps of 10 ms, then a lock that is never released. Bound: max(60 s, 5 × the 99th percentile of a step).
* first-step: tracing takes 90 s. shuffle: the buffer fills for 125 s at the beginning of each of two epochs.
  validation: one of 90 s after each of two epochs. None of these may raise an alarm.

About six minutes. Exits with 1 if one of them does not hold.

With --alive it runs eight scripts at once, each alive in five slow phases of 72 s (tracing that sleeps, and that
computes; a shuffle buffer; the first batch of a generator; a validation; a callback; the script's own code between two
fits; the data of a custom loop), beside eight processes that only compute. None of the forty may raise an alarm.
About ten minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from oomph.journal.journal import read_journal

TRAIN = """
import pathlib, sys, threading, time
import keras
import numpy as np
import tensorflow as tf

CASE = sys.argv[1]
x = np.ones((400, 4), "float32")


def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)  # little, as of a slow disk: what counts is that it is something


def samples():
    for number in range(400):
        work(125 / 400)
        yield x[number], x[number, :1]


class Traced(keras.layers.Layer):
    def call(self, inputs):
        work(90 if CASE == "first-step" else 0)
        return inputs


class Pace(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        Pace.steps += 1
        if CASE == "lock" and Pace.steps == 60 and not pathlib.Path("hung").exists():
            pathlib.Path("hung").touch()
            lock = threading.Lock()
            lock.acquire()
            print(f"waits {time.time()}", flush=True)
            lock.acquire()

    def on_test_batch_end(self, batch, logs=None):
        work(9 if CASE == "validation" else 0)


model = keras.Sequential([keras.Input((4,)), Traced(), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
if CASE == "shuffle":
    spec = (tf.TensorSpec((4,)), tf.TensorSpec((1,)))
    data = tf.data.Dataset.from_generator(samples, output_signature=spec).shuffle(400)
validation = {"validation_data": (x[:160], x[:160, :1]), "validation_batch_size": 16}
model.fit(data.batch(8), epochs=2, verbose=0, callbacks=[Pace()], **validation)
"""
ALIVE = """
import sys, time
import keras
import numpy as np
import tensorflow as tf

CASE, SLOW = sys.argv[1], 72.0
x = np.ones((64, 4), "float32")


def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)


def burn(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


def samples():
    for number in range(64):
        work(SLOW / 64 if CASE == "shuffle" else SLOW if number == 0 else 0)
        yield x[number], x[number, :1]


class Traced(keras.layers.Layer):
    slow = 0

    def call(self, inputs):
        if Traced.slow and not isinstance(inputs, keras.KerasTensor):
            Traced.slow -= 1
            (burn if CASE == "busy-tracing" else work)(SLOW)
        return inputs


class Slow(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        work(SLOW if CASE == "callback" else 0)

    def on_test_batch_end(self, batch, logs=None):
        work(SLOW / 4 if CASE == "validation" else 0)


def model():
    made = keras.Sequential([keras.Input((4,)), Traced(), keras.layers.Dense(1)])
    made.compile("sgd", "mse", jit_compile=False)
    return made


model().fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0)  # fast: what is slow then was not before
for turn in range(5):
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
    if CASE in ("shuffle", "generator"):
        spec = (tf.TensorSpec((4,)), tf.TensorSpec((1,)))
        data = tf.data.Dataset.from_generator(samples, output_signature=spec).shuffle(64 if CASE == "shuffle" else 1)
    if CASE == "loop":
        made = model()
        for epoch in range(2):
            work(SLOW if epoch else 0)
            for batch in data.batch(8):
                made.train_on_batch(*batch)
        continue
    Traced.slow = int(CASE in ("tracing", "busy-tracing"))
    validation = {"validation_data": (x[:32], x[:32, :1]), "validation_batch_size": 8} if CASE == "validation" else {}
    model().fit(data.batch(8), epochs=1, verbose=0, callbacks=[Slow()], **validation)
    work(SLOW if CASE == "own-code" else 0)
print("alive to the end")
"""
LIVES = ("tracing", "busy-tracing", "shuffle", "generator", "validation", "callback", "own-code", "loop")
LOAD = 8
SLOW = ("first-step", "shuffle", "validation")
FLOOR_SECONDS = 60
LONGEST = 1500


def run(case: str) -> tuple[str, bool]:
    """What happened, in a line, and whether it is what should."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(ALIVE if case in LIVES else TRAIN)
        environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        ended = subprocess.run(
            [sys.executable, "-m", "oomph", "run", "--run-dir=run", "train.py", case],
            cwd=folder, env=environ, capture_output=True, text=True, timeout=LONGEST,
        )  # fmt: skip
        events = read_journal(folder / "run")
    hangs = [event for event in events if event.name == "hang"]
    finished = ended.returncode == 0
    if case != "lock":
        took = max(event.time for event in events) - min(event.time for event in events)
        return f"{case}: {len(hangs)} alarms, exit code {ended.returncode}, {took:.0f} s", finished and not hangs
    waits = [float(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("waits")]
    if not hangs or not waits:
        return f"{case}: {len(hangs)} alarms, exit code {ended.returncode}", False
    after = hangs[0].time - waits[0]
    held = len(hangs) == 1 and after <= FLOOR_SECONDS + 1 and finished
    return f"{case}: alarm {after:.1f} s after the last sign of life, at {hangs[0].data['line']}", held


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Within the block, so many processes compute."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--alive", action="store_true", help="forty slow phases under load, instead")
    args = parser.parse_args()
    cases, jobs = (LIVES, len(LIVES)) if args.alive else (("lock", *SLOW), args.jobs)
    with load(LOAD if args.alive else 0), ThreadPoolExecutor(jobs) as pool:
        results = []
        for line, held in pool.map(run, cases):
            print(line, "" if held else "  DOES NOT HOLD", flush=True)
            results.append(held)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
