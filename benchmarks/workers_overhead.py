"""The overhead of `fit` under oomph in two workers without faults, against a custom loop, interleaved in each worker.

    python benchmarks/workers_overhead.py [--rounds 15]

Each worker of a MultiWorkerMirroredStrategy trains three copies of one model in turns, an epoch of each per round: in a
loop as in TensorFlow's guide, by Keras' own fit with oomph's corrections alone, and by the guarded fit. Counts the
user + system CPU time of both workers, and the wall time, without the first steps of each epoch: what a fit costs once
is measured by many_calls.py.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CASES = {"10 ms step": (512, 2, 256, 50), "50 ms step": (1024, 3, 512, 18)}
"""Maps names to width, layers, global batch and steps of an epoch."""
ARMS = ("loop", "corrected", "guarded")
SKIPPED = 3
"""The first steps of an epoch, which do not count."""
SECONDS = 900


def worker(rounds: int) -> None:
    """Measure every case, and print a JSON document with the CPU and wall time of each epoch."""
    import tensorflow as tf
    from overhead import Switch

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(Path(folder))
        print(json.dumps({name: _measured(strategy, switch, *case, rounds) for name, case in CASES.items()}))


def _measured(
    strategy: Any, switch: Any, width: int, layers: int, batch: int, steps: int, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    import keras
    import numpy as np
    import tensorflow as tf

    class StepClock(keras.callbacks.Callback):  # type: ignore[misc]
        """CPU and wall seconds between the first steps and the end of an epoch."""

        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == SKIPPED - 1:
                self._cpu, self._wall = time.process_time(), time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds = time.process_time() - self._cpu, time.perf_counter() - self._wall

    def built() -> Any:
        keras.utils.set_random_seed(7)
        with strategy.scope():
            hidden = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
            model = keras.Sequential([keras.Input((width,)), *hidden, keras.layers.Dense(10)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss, metrics=["accuracy"])
            model.optimizer.build(model.trainable_variables)
        return model

    def fit(model: Any) -> tuple[float, float]:
        clock = StepClock()
        model.fit(dataset, verbose=0, callbacks=[clock])
        return clock.seconds

    generator = np.random.default_rng(0)
    x = generator.standard_normal((batch * steps, width)).astype("float32")
    y = generator.integers(0, 10, batch * steps)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True).prefetch(2)
    distributed, models = strategy.experimental_distribute_dataset(dataset), {arm: built() for arm in ARMS}
    looped, accuracy = models["loop"], None
    with strategy.scope():
        accuracy = keras.metrics.SparseCategoricalAccuracy()

    def replica(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            outputs = looped(x, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(y, outputs, from_logits=True)
            loss = tf.nn.compute_average_loss(losses)
        variables = looped.trainable_variables
        looped.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        accuracy.update_state(y, outputs)
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=(next(iterator),)), axis=None)

    def loop() -> tuple[float, float]:
        iterator = iter(distributed)
        for number in range(steps):
            if number == SKIPPED:
                cpu, wall = time.process_time(), time.perf_counter()
            step(iterator)
        float(accuracy.result())
        return time.process_time() - cpu, time.perf_counter() - wall

    def plainly(train: Callable[[], tuple[float, float]]) -> tuple[float, float]:
        with switch.plain():
            return train()

    arms: dict[str, Callable[[], tuple[float, float]]] = {
        "loop": lambda: plainly(loop),
        "corrected": lambda: plainly(lambda: fit(models["corrected"])),
        "guarded": lambda: fit(models["guarded"]),
    }
    taken: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    for number in range(rounds + 1):
        for arm in ARMS if number % 2 else reversed(ARMS):
            seconds = arms[arm]()
            taken[arm] += [seconds] if number else []  # tracing does not count
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if "TF_CONFIG" in os.environ:
        worker(rounds)
        return
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]
    config = {"cluster": {"worker": workers}}
    environs = [json.dumps({**config, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
    command = [sys.executable, __file__, "--rounds", str(rounds)]
    started = [
        subprocess.Popen(command, env={**os.environ, "TF_CONFIG": each}, stdout=subprocess.PIPE) for each in environs
    ]
    found = [json.loads(each.communicate(timeout=SECONDS)[0].splitlines()[-1]) for each in started]
    for name, (_, _, _, steps) in CASES.items():
        both = {arm: list(zip(*(of_worker[name][arm] for of_worker in found), strict=True)) for arm in ARMS}
        cpu = {arm: [sum(seconds for seconds, _ in pair) for pair in pairs] for arm, pairs in both.items()}
        wall = {arm: [max(seconds for _, seconds in pair) for pair in pairs] for arm, pairs in both.items()}
        print(f"{name}: a loop's step {statistics.median(wall['loop']) / (steps - SKIPPED) * 1e3:.1f} ms")
        for arm, against in (("guarded", "loop"), ("guarded", "corrected"), ("corrected", "loop")):
            print(f"    {arm} / {against}: CPU {_ratio(cpu, arm, against)}, wall {_ratio(wall, arm, against)}")


def _ratio(seconds: dict[str, list[float]], arm: str, against: str) -> str:
    return f"{statistics.median(a / b for a, b in zip(seconds[arm], seconds[against], strict=True)):.3f}"


if __name__ == "__main__":
    main()
