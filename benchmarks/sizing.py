"""How many out-of-memory errors it takes to find a micro-batch size, and how good it is, from 1 to 64 times too big.

    python benchmarks/sizing.py [--memory 48] [--jit]

The largest batch that one step of plain Keras fits into that many MiB (TensorFlow's own BFC allocator on the CPU) is
found by bisection, each try in its own process. Then `oomph run` trains with batches of 1.5, 2 ... 64 times that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TRAIN = """
import sys
import keras
import numpy as np

batch, steps, jit = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "jit"
layers = [keras.layers.Dense(512, "tanh") for _ in range(4)]
model = keras.Sequential([keras.Input((1,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=jit)
x = np.ones((batch * steps, 1), "float32")
model.fit(x, x, batch_size=batch, verbose=0, shuffle=False)
"""
FACTORS = (1.5, 2, 4, 8, 16, 32, 64)
SECONDS = 300


def environment(memory: int) -> dict[str, str]:
    limits = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(memory), "TF_ENABLE_ONEDNN_OPTS": "0"}
    return {**os.environ, **limits, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def fits(script: Path, memory: int, batch: int, kind: str) -> bool:
    command = [sys.executable, str(script), str(batch), "2", kind]
    return subprocess.run(command, env=environment(memory), capture_output=True, timeout=SECONDS).returncode == 0


def largest(script: Path, memory: int, kind: str) -> int:
    """To within an eighth."""
    low, high = 64, 1 << 16
    while high > low * 1.125:
        middle = int((low * high) ** 0.5)
        low, high = (middle, high) if fits(script, memory, middle, kind) else (low, middle)
    return low


def found(script: Path, memory: int, batch: int, kind: str, folder: Path) -> dict[str, Any]:
    run = folder / f"run-{batch}"
    command = [sys.executable, "-m", "oomph", "run", "--run-dir", str(run), str(script), str(batch), "2", kind]
    ended = subprocess.run(command, env=environment(memory), capture_output=True, timeout=SECONDS)
    summary = json.loads((run / "summary.json").read_text())
    ooms = sum(line.count('"event":"oom"') for file in run.glob("journal/*.jsonl") for line in file.open())
    return {"exit": ended.returncode, "ooms": ooms, "micro_batch": summary["micro_batch"], **summary}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=int, default=48, help="MiB (48)")
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    args = parser.parse_args()
    kind = "jit" if args.jit else "graph"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(TRAIN)
        most = largest(script, args.memory, kind)
        print(f"plain Keras fits {most} samples into {args.memory} MiB ({kind})\n")
        print("| times too big | batch | OOMs | restarts | micro-batch | of the largest | exit |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for factor in FACTORS:
            batch = int(most * factor)
            end = found(script, args.memory, batch, kind, folder)
            share = (end["micro_batch"] or 0) / most
            row = [factor, batch, end["ooms"], end["restarts"], end["micro_batch"], f"{share:.2f}", end["exit"]]
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
