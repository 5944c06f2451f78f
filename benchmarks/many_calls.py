"""The overhead of oomph on many short calls, as in reinforcement learning, interleaved with plain Python.

    python benchmarks/many_calls.py [--rounds 3] [--calls 150]

A script calls `fit` on one batch, `train_on_batch`, `evaluate` on one batch and `predict` on one sample, many times
each and on one model. It runs in plain Python and under `oomph run`, in turns, with the checkpoints and end states of a
usual run. The first calls trace the model and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SCRIPT = """
import json, sys, time
import keras
import numpy as np

keras.utils.set_random_seed(1)
layers = [keras.layers.Dense(24, "relu"), keras.layers.Dense(24, "relu"), keras.layers.Dense(2)]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("adam", "mse")
x, y = np.random.rand(32, 4).astype("float32"), np.random.rand(32, 2).astype("float32")
calls = {
    "fit of one step": lambda: model.fit(x, y, batch_size=32, verbose=0),
    "train_on_batch": lambda: model.train_on_batch(x, y),
    "evaluate on one batch": lambda: model.evaluate(x, y, verbose=0),
    "predict on one sample": lambda: model.predict(x[:1], verbose=0),
}
found = {}
for name, call in calls.items():
    for _ in range(10):
        call()
    wall, cpu = [], []
    for _ in range(int(sys.argv[2])):
        before = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - before[0])
        cpu.append(time.process_time() - before[1])
    found[name] = [wall, cpu]
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""
SECONDS = 900


def measured(folder: Path, command: list[str], calls: int) -> dict[str, Any]:
    """Wall and CPU seconds of each call."""
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(
        [sys.executable, *command, "train.py", "out.json", str(calls)],
        cwd=folder, env=environ, timeout=SECONDS, check=True, capture_output=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=150)
    args = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        for number in range(args.rounds):
            plain = measured(folder, [], args.calls)
            rounds.append((plain, measured(folder, ["-m", "oomph", "run", f"--run-dir=run{number}"], args.calls)))
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; medians of {args.calls} calls, {args.rounds} interleaved rounds"
    )
    for kind in rounds[0][0]:
        told = []
        for clock, name in enumerate(("wall", "CPU")):
            pairs = [[1e3 * statistics.median(each[kind][clock]) for each in pair] for pair in rounds]
            plain, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            told.append(f"{name} {plain:7.2f} → {ours:7.2f} ms (x{ours / plain:.2f})")
        means = [[1e3 * statistics.fmean(each[kind][0]) for each in pair] for pair in rounds]
        added = statistics.median(ours - plain for plain, ours in means)
        print(f"{kind:22} {'  '.join(told)}  mean wall {added:+.2f} ms a call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
