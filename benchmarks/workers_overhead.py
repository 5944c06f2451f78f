"""The overhead of `fit` under oomph in two workers without faults, against a custom loop, interleaved in each worker.

    python benchmarks/workers_overhead.py [--rounds 15] [--only "10 ms step"]

Each worker of a MultiWorkerMirroredStrategy trains copies of one model in turns, some epochs of each per round: in a
loop as in TensorFlow's guide; by Keras' own fit with oomph's corrections alone; by the guarded fit as in `oomph run`;
and by the guarded fit without the timestamps that find a straggler, or without the border at which all workers save.
Counts the user + system CPU time of both workers, and the wall time, over whole epochs: their iterator, their steps,
and their results. The first epoch of a fit does not count: what a fit costs once is measured by many_calls.py.
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
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

CASES = {"10 ms step": (512, 2, 256, 50), "50 ms step": (1024, 3, 512, 18)}
"""Maps names to width, layers, global batch and steps of an epoch."""
ARMS = ("loop", "corrected", "guarded", "untimed", "alone")
RATIOS = (
    ("guarded", "loop", ""),
    ("corrected", "loop", ""),
    ("guarded", "corrected", ""),
    ("guarded", "untimed", ": the timestamps"),
    ("guarded", "alone", ": the common border"),
)
EPOCHS = 3
"""The epochs of a turn, of which the first does not count."""
SECONDS = 900


def worker(rounds: int, names: list[str]) -> None:
    """Measure the cases, and print a JSON document with the CPU and wall time of each turn."""
    import tensorflow as tf
    from overhead import Switch

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(Path(folder))
        print(json.dumps({name: _measured(strategy, switch, *CASES[name], rounds) for name in names}))


@contextmanager
def _with_borders(strategy: Any, switch: Any) -> Iterator[None]:
    """Let the trainings within the block save and stop together with those of the other worker."""
    from oomph.keras_bridge.runtime.patching import replaced
    from oomph.protocol.border_boards import MappedBorderBoard
    from oomph.protocol.borders import CommonBorders

    rank = strategy.cluster_resolver.task_id
    borders = CommonBorders(MappedBorderBoard(Path(os.environ["BORDERS"]), 1, rank, 2), rank)
    with replaced(switch.fits, "common_borders", lambda strategy: borders):
        yield


@contextmanager
def _without_timestamps() -> Iterator[None]:
    """Trace no timestamps within the block."""
    from oomph.keras_bridge.runtime.patching import replaced
    from oomph.monitor.live import all_reduce_time, input_wait

    with replaced(all_reduce_time, "can_ask", lambda: False), replaced(input_wait, "can_ask", lambda: False):
        yield


def _measured(
    strategy: Any, switch: Any, width: int, layers: int, batch: int, steps: int, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    import keras
    import numpy as np
    import tensorflow as tf

    class EpochClock(keras.callbacks.Callback):  # type: ignore[misc]
        """CPU and wall seconds from the end of the first epoch to the end of the last."""

        async_safe = True

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            now = time.process_time(), time.perf_counter()
            if epoch == 0:
                self._began = now
            self.seconds = now[0] - self._began[0], now[1] - self._began[1]

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
        clock = EpochClock()
        model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[clock])
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
        for epoch in range(EPOCHS):
            if epoch == 1:
                cpu, wall = time.process_time(), time.perf_counter()
            accuracy.reset_state()
            iterator = iter(distributed)
            for _ in range(steps):
                loss = step(iterator)
            float(loss), float(accuracy.result())
        return time.process_time() - cpu, time.perf_counter() - wall

    def train(arm: str) -> tuple[float, float]:
        if arm in ("loop", "corrected"):
            with switch.plain():
                return loop() if arm == "loop" else fit(models[arm])
        with _with_borders(strategy, switch) if arm != "alone" else nullcontext():
            with _without_timestamps() if arm == "untimed" else nullcontext():
                return fit(models[arm])

    taken: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    for number in range(rounds + 1):
        for arm in ARMS if number % 2 else reversed(ARMS):
            seconds = train(arm)
            taken[arm] += [seconds] if number else []  # tracing does not count
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=CASES, help="measure this case alone")
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else list(CASES)
    if "TF_CONFIG" in os.environ:
        worker(arguments.rounds, names)
        return
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]
    config = {"cluster": {"worker": workers}}
    environs = [json.dumps({**config, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env={**os.environ, "TF_CONFIG": each, "BORDERS": folder},
                stdout=subprocess.PIPE,
            )
            for each in environs
        ]
        found = [json.loads(each.communicate(timeout=SECONDS)[0].splitlines()[-1]) for each in started]
    for name in names:
        both = {arm: list(zip(*(of_worker[name][arm] for of_worker in found), strict=True)) for arm in ARMS}
        cpu = {arm: [sum(seconds for seconds, _ in pair) for pair in pairs] for arm, pairs in both.items()}
        wall = {arm: [max(seconds for _, seconds in pair) for pair in pairs] for arm, pairs in both.items()}
        steps = CASES[name][3] * (EPOCHS - 1)
        each_ms = (statistics.median(seconds["loop"]) / steps * 1e3 for seconds in (wall, cpu))
        print("{}: a loop's step {:.1f} ms, {:.1f} ms of CPU time on both workers".format(name, *each_ms))
        for arm, against, what in RATIOS:
            print(f"    {arm} / {against}: CPU {_ratio(cpu, arm, against)}, wall {_ratio(wall, arm, against)}{what}")


def _ratio(seconds: dict[str, list[float]], arm: str, against: str) -> str:
    return f"{statistics.median(a / b for a, b in zip(seconds[arm], seconds[against], strict=True)):.3f}"


if __name__ == "__main__":
    main()
