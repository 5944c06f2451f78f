"""Hangs at their real limits: one must be seen within them, and what is only slow must be left alone.

    python benchmarks/patience.py [--jobs 2]

* lock: steps of 10 ms, then a lock that is never given back. Bound: max(60 s, 5 × the 99th percentile of a step).
* first-step: tracing takes 90 s. shuffle: the buffer fills for 125 s at the beginning of each of two epochs.
  validation: one of 90 s after each of two epochs. None of these may raise an alarm.

About six minutes. Ends with 1 if one of them does not hold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from oomph.journal import read_journal

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
SLOW = ("first-step", "shuffle", "validation")
FLOOR_SECONDS = 60
LONGEST = 900


def run(case: str) -> tuple[str, bool]:
    """What happened, in a line, and whether it is what should."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAIN)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    args = parser.parse_args()
    with ThreadPoolExecutor(args.jobs) as pool:
        results = []
        for line, held in pool.map(run, ("lock", *SLOW)):
            print(line, "" if held else "  DOES NOT HOLD", flush=True)
            results.append(held)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
