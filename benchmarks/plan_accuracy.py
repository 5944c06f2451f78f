"""How well `oomph plan` predicts: each model's peak beside that of real steps, on the CPU under the GPUs' allocator.

    python benchmarks/plan_accuracy.py [--models NAME|FILE.py] [--graph | --first] [--only NAME] [--out FILE]

NAME is a file of benchmarks/plan_models: development, held_out, second_, third_ or fourth_held_out. A file has
MODELS, functions of a batch size that return a compiled model and one batch of x and y, and BATCHES, three sizes for
each. The engine reads a batch of the first size, and is told for which sizes the plan is, as `oomph plan --batch` tells
it: it runs steps of those that are cheap. `--first` does not tell it. `--graph` leaves out the real steps that correct
the simulation. Every real peak is that of a `fit` of three steps in a process of its own.

A limit is taken at several parts of each real peak: a wrong "fits" is a yes below the real peak, a wrong "does not fit"
a no above it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
FOLDER = Path(__file__).with_name("plan_models")
LIMITS = (0.6, 0.8, 0.9, 0.95, 0.99, 1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5)
SECONDS = 900
MEMORY_MIB = 16_000


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("plan_models_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch_of(x: Any, y: Any) -> tuple[Any, ...]:
    """As `fit` gives it to `train_step`; a model that makes its own targets has no y."""
    x = tuple(x) if isinstance(x, list) else x  # tf.data makes one tensor of a list
    return (x,) if y is None else (x, y)


def real_peak(path: Path, name: str, batch: int) -> dict[str, Any]:
    """The peak of a fit of three steps on one batch, by TensorFlow's own count."""
    import keras
    import tensorflow as tf

    model, x, y = load(path).MODELS[name](batch)
    data = tf.data.Dataset.from_tensors(batch_of(x, y)).repeat(3)
    peaks = []

    class Peaks(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            tf.config.experimental.reset_memory_stats("CPU:0")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])

    model.fit(data, verbose=0, callbacks=[Peaks()])
    return {"peak": max(peaks), "peaks": peaks}


def predicted(path: Path, name: str, batches: list[int], graph: bool, first: bool = True) -> dict[str, Any]:
    """What the engine says of each batch, and how long it takes."""
    import resource

    import tensorflow as tf

    from oomph.planning.live import subject
    from oomph.planning.live.engine import engine_for

    model, x, y = load(path).MODELS[name](batches[0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    data = tf.nest.map_structure(tf.constant, batch_of(x, y))
    subject.build(model, data)
    asked = [] if first else batches
    engine = engine_for(model, data, lambda text: None, runs=not graph, foreign=0, asked=asked)
    peaks = [engine.at(batch).peak for batch in batches]
    return {
        "engine": engine.name,
        "seconds": round(time.monotonic() - started, 1),
        "ran": engine.ran,
        "rss_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024),
        "peaks": [[peak.low, peak.expected, peak.high] for peak in peaks],
    }


def child(what: str, *arguments: str) -> dict[str, Any]:
    environ = os.environ | {
        "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(MEMORY_MIB), "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1",
    }  # fmt: skip
    command = [sys.executable, __file__, "--child", what, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environ)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(path: Path, name: str, batches: list[int], graph: bool, first: bool) -> list[dict[str, Any]]:
    said = child("predicted", str(path), name, json.dumps(batches), json.dumps(graph), json.dumps(first))
    rows = []
    for number, batch in enumerate(batches):
        real = child("real", str(path), name, str(batch))
        row = {"model": name, "batch": batch, **{key: said.get(key) for key in ("engine", "seconds", "rss_mib", "ran")}}
        if "error" in said or "error" in real:
            rows.append(row | {"error": said.get("error") or real.get("error")})
        else:
            low, expected, high = said["peaks"][number]
            rows.append(row | {"real": real["peak"], "low": low, "expected": expected, "high": high})
        print(in_words(rows[-1]), flush=True)
    return rows


def in_words(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"| {row['model']} | {row['batch']} | {row['error'][:90]} |"
    low, expected, high, real = (row[key] / MIB for key in ("low", "expected", "high", "real"))
    held = "yes" if low <= real <= high else "no"
    return (
        f"| {row['model']} | {row['batch']} | {real:,.0f} | {expected:,.0f} | {low:,.0f} to {high:,.0f} | "
        f"{expected / real - 1:+.1%} | {held} | {row['engine']} | {row['seconds']} s |"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    good = [row for row in rows if "error" not in row]
    errors = [abs(row["expected"] / row["real"] - 1) for row in good]
    covered = sum(row["low"] <= row["real"] <= row["high"] for row in good)
    widths = [row["high"] / row["low"] for row in good]
    yes = no = 0
    for row in good:
        for part in LIMITS:
            limit = part * row["real"]
            yes += row["high"] <= limit < row["real"]
            no += (row["low"] + row["expected"]) // 2 > limit >= row["real"]
    above = len(good) * sum(part >= 1 for part in LIMITS)
    return (
        f"{len(good)} points, {len(rows) - len(good)} without a result; error: median {statistics.median(errors):.1%}, "
        f"most {max(errors):.1%}; covered {covered} ({covered / len(good):.0%}); high/low: median "
        f"{statistics.median(widths):.2f}; wrong fits {yes}; wrong does not fit {no} of {above} ({no / above:.0%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="held_out")
    parser.add_argument("--graph", action="store_true", help="simulation only")
    parser.add_argument("--first", action="store_true", help="tell the engine the first batch size only")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        what, path, name, *rest = args.child
        if what == "real":
            print(json.dumps(real_peak(Path(path), name, int(rest[0]))))
        else:
            print(json.dumps(predicted(Path(path), name, *map(json.loads, rest))))
        return
    path = Path(args.models) if args.models.endswith(".py") else FOLDER / f"{args.models}.py"
    models = load(path)
    print(
        "| model | batch | real, MiB | expected | interval | error | covered | engine | time |\n| --- "
        + "| --- " * 8
        + "|"
    )
    rows = []
    for name in args.only or models.MODELS:
        rows += rows_of(path, name, list(models.BATCHES[name]), args.graph, args.first)
    print(summary(rows))
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
