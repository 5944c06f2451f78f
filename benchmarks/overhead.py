"""The overhead of the guard without faults: guarded and plain Keras, interleaved in one process.

    python benchmarks/overhead.py [--rounds 20] [--only "10 ms step"] [--variant NAME] [--json]

Each case trains two copies of one model, one through oomph and one through unmodified Keras, in turns: an epoch of
each per round, in alternating order. Only the time between the start and the end of an epoch counts, as wall clock and
as user + system CPU of the process. Checkpoints are excluded, since they are bounded to a share of the time. A variant
omits one part of the guard, to measure its cost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from oomph.exact_step.step import full_batch_step
from oomph.hooks import intercept
from oomph.journal.journal import Journal
from oomph.protocol.handover import Guarding, Handover
from oomph.protocol.progress import ProgressBoard
from oomph.script.session import Session


@dataclass(frozen=True)
class Case:
    """A model and a batch size, chosen so that a step takes about as long as its name says on two cores."""

    name: str
    width: int
    layers: int
    batch: int
    steps: int
    jit: bool | str = False
    norm: bool = False
    verb: str = "fit"


CASES = (
    Case("1 ms step", width=128, layers=3, batch=64, steps=400),
    Case("1 ms step, BatchNorm + Dropout", width=96, layers=2, batch=32, steps=400, norm=True),
    Case("1 ms step, XLA", width=128, layers=3, batch=64, steps=400, jit=True),
    Case("10 ms step", width=1024, layers=2, batch=256, steps=60),
    Case("10 ms step, XLA", width=1024, layers=2, batch=256, steps=60, jit=True),
    Case("evaluate", width=128, layers=3, batch=64, steps=400, verb="evaluate"),
    Case("evaluate, XLA", width=128, layers=3, batch=64, steps=400, verb="evaluate", jit=True),
    Case("predict", width=128, layers=3, batch=64, steps=400, verb="predict"),
)


def without_witnesses() -> None:
    """No batch is fingerprinted."""

    class Unwitnessed(intercept.GuardedStep):
        def __init__(self, *arguments: Any, witnessed: bool, **options: Any) -> None:
            super().__init__(*arguments, witnessed=False, **options)

    intercept.GuardedStep = Unwitnessed


def gradients_held() -> None:
    """Outside XLA too, the gradients are held until all exist, and not the values to be assigned."""
    behind_barrier = full_batch_step.behind_barrier
    full_batch_step.behind_barrier = lambda optimizer, commits, compiled_by_xla, room_bytes: behind_barrier(
        optimizer, commits, True, room_bytes
    )


def nothing_held() -> None:
    """Outside XLA, nothing is held, as if the device had no room for it."""
    behind_barrier = full_batch_step.behind_barrier
    full_batch_step.behind_barrier = lambda optimizer, commits, compiled_by_xla, room_bytes: behind_barrier(
        optimizer, commits, compiled_by_xla, lambda: 0
    )


VARIANTS = {"without-witnesses": without_witnesses, "gradients-held": gradients_held, "nothing-held": nothing_held}


class EpochClock(keras.callbacks.Callback):
    """Wall and CPU seconds between the begin and the end of the last epoch, or of one evaluate or predict."""

    async_safe = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def on_test_begin(self, logs: Any = None) -> None:
        self.on_epoch_begin(0)

    def on_test_end(self, logs: Any = None) -> None:
        self.on_epoch_end(0)

    on_predict_begin, on_predict_end = on_test_begin, on_test_end


def build(case: Case) -> Any:
    keras.utils.set_random_seed(7)
    layers: list[Any] = [keras.Input((case.width,))]
    for _ in range(case.layers):
        layers.append(keras.layers.Dense(case.width, activation="relu"))
        if case.norm:
            layers += [keras.layers.BatchNormalization(), keras.layers.Dropout(0.1)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=case.jit)
    return model


def data(case: Case) -> Any:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((case.batch * case.steps, case.width)).astype("float32")
    y = generator.integers(0, 10, case.batch * case.steps)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(case.batch, drop_remainder=True).prefetch(2)


class Switch:
    """Turns the interception of Keras on and off within one process."""

    def __init__(self, run_dir: Path) -> None:
        cls, epochs = trainer.TensorFlowTrainer, trainer.TFEpochIterator
        makers = ("make_train_function", "make_test_function", "make_predict_function")
        self._places = [(cls, name) for name in ("fit", *makers, "_get_metrics_result_or_logs")]
        iterating = ("__init__", "_enumerate_iterator", "_get_iterator", "catch_stop_iteration")
        self._places += [(epochs, name) for name in iterating]
        self._places += [(BaseOptimizer, "apply"), (Function, "__call__")]
        self._plain = [getattr(owner, name) for owner, name in self._places]
        handover = Handover(package="", run_dir=str(run_dir), guarding=Guarding(checkpoint_seconds=1e9))
        board = ProgressBoard(run_dir, 1)
        session = Session(handover, Journal(run_dir, 1, "script"), True, "script", os.getpid(), board, run_dir)
        object.__setattr__(session, "say", lambda text: None)
        self.fits = intercept.install(trainer, session)
        self._guarded = [getattr(owner, name) for owner, name in self._places]

    @contextlib.contextmanager
    def plain(self) -> Iterator[None]:
        self._set(self._plain)
        try:
            yield
        finally:
            self._set(self._guarded)

    def _set(self, methods: list[Any]) -> None:
        for (owner, name), method in zip(self._places, methods, strict=True):
            setattr(owner, name, method)


def epoch(case: Case, model: Any, dataset: Any) -> EpochClock:
    clock = EpochClock()
    getattr(model, case.verb)(dataset, verbose=0, callbacks=[clock])
    return clock


def measure(case: Case, rounds: int, switch: Switch) -> dict[str, Any]:
    dataset = data(case)
    plain, guarded = build(case), build(case)

    def run_plain() -> EpochClock:
        with switch.plain():
            return epoch(case, plain, dataset)

    run_plain(), epoch(case, guarded, dataset)  # tracing and compilation do not count
    pairs = []
    for number in range(rounds):
        if number % 2:
            second, first = epoch(case, guarded, dataset), run_plain()
        else:
            first, second = run_plain(), epoch(case, guarded, dataset)
        pairs.append((first, second))
    difference = max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0))
        for a, b in zip(plain.variables, guarded.variables, strict=True)
    )
    micro = 1e6 / case.steps
    return {
        "case": case.name,
        "steps": case.steps,
        "plain_us": round(statistics.median(p.wall for p, _ in pairs) * micro),
        "guarded_us": round(statistics.median(g.wall for _, g in pairs) * micro),
        "wall_ratio": round(statistics.median(g.wall / p.wall for p, g in pairs), 4),
        "wall_added_us": round(statistics.median((g.wall - p.wall) * micro for p, g in pairs), 1),
        "least_added_us": round((min(g.wall for _, g in pairs) - min(p.wall for p, _ in pairs)) * micro, 1),
        "cpu_ratio": round(statistics.median(g.cpu / p.cpu for p, g in pairs), 4),
        "weight_difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=[case.name for case in CASES], help="measure this case alone")
    parser.add_argument("--variant", choices=list(VARIANTS), help="the guard without one of its parts")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    if arguments.variant:
        VARIANTS[arguments.variant]()
    cases = [case for case in CASES if arguments.only in (None, case.name)]
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(Path(folder))
        rows = [measure(case, arguments.rounds, switch) for case in cases]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, TensorFlow {tf.__version__}, Keras {keras.__version__}"
    if arguments.json:
        print(json.dumps({"schema": 1, "machine": machine, "rounds": arguments.rounds, "rows": rows}))
        return
    print(f"{machine}; {arguments.rounds} interleaved pairs of epochs; medians over the pairs")
    for row in rows:
        print(
            f"{row['case']:32} plain {row['plain_us']:6} us  guarded {row['guarded_us']:6} us  "
            f"wall x{row['wall_ratio']:.3f} ({row['wall_added_us']:+.0f} us, minima {row['least_added_us']:+.0f} us)  "
            f"CPU x{row['cpu_ratio']:.3f}  weights differ by {row['weight_difference']:g}"
        )


if __name__ == "__main__":
    main()
