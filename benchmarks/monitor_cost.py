"""What `oomph.Monitor` costs a step: fits with and without it, interleaved in one process.

    python benchmarks/monitor_cost.py [--rounds 10] [--json]

Two copies of one model train in turns, a fit of each per round, in alternating order. The median epoch of a fit counts,
without the first three, which have the start of the sampler, a process of its own. The cost of a step is the median
over the rounds of the difference, as wall clock and as user + system CPU of this process; `at best` is the difference
of the fastest rounds, which other programs on the machine disturb less. `meter alone` is the time of the meter's own
code, without TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import oomph
from oomph.monitor.board import TrainingBoard
from oomph.monitor.live.meter import Meter

STEPS, BATCH, WIDTH, EPOCHS, STARTING = 400, 64, 128, 9, 3
CASES = {"1 ms step": False, "1 ms step, XLA": True}


class Clock(keras.callbacks.Callback):
    """Wall and CPU seconds of the median epoch."""

    async_safe = True

    def on_train_begin(self, logs: Any = None) -> None:
        self._epochs: list[tuple[float, float]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._epochs.append((time.perf_counter() - self._wall, time.process_time() - self._cpu))

    def median(self) -> tuple[float, float]:
        counted = self._epochs[STARTING:]
        return statistics.median(wall for wall, _ in counted), statistics.median(cpu for _, cpu in counted)


def model(jit: bool) -> Any:
    keras.utils.set_random_seed(7)
    hidden = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(3)]
    made = keras.Sequential([keras.Input((WIDTH,)), *hidden, keras.layers.Dense(10)])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=jit)
    return made


def measure(jit: bool, rounds: int, folder: str) -> dict[str, float]:
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, WIDTH)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, random.integers(0, 10, len(x)))).batch(BATCH).cache()
    plain, watched, clock = model(jit), model(jit), Clock()
    monitor = oomph.Monitor(folder)
    kinds: list[tuple[Any, list[Any]]] = [(plain, [clock]), (watched, [monitor, clock])]
    seen: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for number in range(rounds + 1):
        for kind in (0, 1) if number % 2 else (1, 0):
            fitted, callbacks = kinds[kind]
            fitted.fit(data, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=callbacks)
            if number:  # the first round traces and compiles
                seen[kind].append(clock.median())
    wall, cpu = (
        statistics.median(with_it[part] - without[part] for without, with_it in zip(seen[0], seen[1], strict=True))
        for part in (0, 1)
    )
    best_wall, best_cpu = (min(each[part] for each in seen[1]) - min(each[part] for each in seen[0]) for part in (0, 1))
    return {
        "best_wall_us": best_wall / STEPS * 1e6,
        "best_cpu_us": best_cpu / STEPS * 1e6,
        "step_us": statistics.median(each[0] for each in seen[0]) / STEPS * 1e6,
        "wall_us": wall / STEPS * 1e6,
        "cpu_us": cpu / STEPS * 1e6,
    }


def meter_alone(folder: str) -> float:
    meter, steps = Meter(TrainingBoard(Path(folder)), print), 200_000
    meter.begin()
    meter.begin_epoch(0)
    began = time.process_time()
    for _ in range(steps):
        meter.count()
    return (time.process_time() - began) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {name: measure(jit, options.rounds, folder) for name, jit in CASES.items()}
        alone = meter_alone(folder)
    if options.json:
        print(json.dumps({"cases": found, "meter_alone_us": alone}))
        return
    for name, figures in found.items():
        print(f"{name:16} {figures['step_us']:8.0f} µs a step, with Monitor {figures['wall_us']:+.1f} µs", end="")
        print(f" (CPU {figures['cpu_us']:+.1f} µs)", end="")
        print(f", at best {figures['best_wall_us']:+.1f} µs (CPU {figures['best_cpu_us']:+.1f} µs)")
    print(f"{'meter alone':16} {alone:8.2f} µs")


if __name__ == "__main__":
    main()
