"""How long a checkpoint stops training, and how long writing it takes in the background.

    python benchmarks/stall.py [--width 2200] [--every 20] [--rounds 1] [--beside OTHER/bin/python]

By default weights and Adam's slots take about 180 MB, and a step about 0.2 s on two cores. `--beside` names an
interpreter with another version of oomph: both are measured, in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from oomph.journal.journal import Event, read_journal

TRAIN = """
import sys
import keras
import numpy as np

width = int(sys.argv[1])
layers = [keras.layers.Dense(width, "tanh") for _ in range(4)]
model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
x = np.ones((12800, 64), "float32")
model.fit(x, x[:, :1], batch_size=128, verbose=0)
"""
SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=2200)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints, of 100")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter that has another version of oomph")
    args = parser.parse_args()
    for number in range(args.rounds):
        for python in filter(None, [sys.executable, args.beside]):
            if args.rounds > 1 or args.beside:
                print(f"round {number + 1}, {'beside' if python == args.beside else 'this oomph'}")
            tell(trained(python, args.width, args.every))
    return 0


def trained(python: str, width: int, every: int) -> list[Event]:
    """The journal of a training under the oomph of this interpreter."""
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(TRAIN)
        words = ["run", "--run-dir=run", f"--checkpoint-every={every}", "train.py", str(width)]
        subprocess.run([python, "-m", "oomph", *words], cwd=folder, env=environ, timeout=SECONDS, check=True)
        return read_journal(Path(folder) / "run")


def tell(events: list[Event]) -> None:
    """Print how long training stood still."""
    saved = [event.data for event in events if event.name == "checkpoint"]
    ours = [one for one in saved if not str(one["name"]).startswith("finished")]
    fit = next(event.data for event in events if event.name == "fit-finished")
    print(
        f"{fit['steps']} steps in {fit['seconds']:.0f} s; {len(ours)} checkpoints of {ours[-1]['bytes'] / 1e6:.0f} MB"
    )
    for name, key in (("training waits", "seconds"), ("written behind it", "background_seconds")):
        values = [float(one[key]) for one in ours]
        print(f"{name}: median {statistics.median(values):.3f} s, most {max(values):.3f} s")


if __name__ == "__main__":
    sys.exit(main())
