"""How long training stands still for a checkpoint, and how long writing it takes in the background.

    python benchmarks/stall.py [--width 2200] [--every 20]

Weights and Adam's slots of some 180 MB by default, steps of some 0.2 s on two cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from oomph.journal import read_journal

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
    args = parser.parse_args()
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(TRAIN)
        words = ["run", "--run-dir=run", f"--checkpoint-every={args.every}", "train.py", str(args.width)]
        subprocess.run([sys.executable, "-m", "oomph", *words], cwd=folder, env=environ, timeout=SECONDS, check=True)
        events = read_journal(Path(folder) / "run")
    saved = [event.data for event in events if event.name == "checkpoint"]
    ours = [one for one in saved if not str(one["name"]).startswith("finished")]
    fit = next(event.data for event in events if event.name == "fit-finished")
    print(
        f"{fit['steps']} steps in {fit['seconds']:.0f} s; {len(ours)} checkpoints of {ours[-1]['bytes'] / 1e6:.0f} MB"
    )
    for name, key in (("training waits", "seconds"), ("written behind it", "background_seconds")):
        values = [float(one[key]) for one in ours]
        print(f"{name}: median {statistics.median(values):.2f} s, most {max(values):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
