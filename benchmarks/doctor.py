"""How long `oomph doctor` takes: wall and CPU time of the whole process, without a GPU and with those of the rig.

Run: `python benchmarks/doctor.py [--rounds 20]`, after `make rig`. cuInit's own time is printed separately and not
subtracted: on the rig it is zero.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BUILT = Path(__file__).parents[1] / "tests" / "rig" / "built"
PLAIN = {
    name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "TF_", "XLA_", "LD_", "FAKE_"))
}
LIBRARIES = {"LD_LIBRARY_PATH": f"{BUILT / 'driver'}{os.pathsep}{BUILT / 'runtime'}"}
CASES = {
    "no GPU": {},
    "one GPU of the rig": LIBRARIES,
    "eight GPUs of the rig": {**LIBRARIES, "FAKE_NGPU": "8"},
    "one GPU, XLA_FLAGS set": {**LIBRARIES, "XLA_FLAGS": "--xla_gpu_autotune_level=2"},
}


def once(environ: dict[str, str]) -> tuple[float, float, float]:
    """Wall time, CPU time of the process and its children, and of that the time in cuInit; in milliseconds."""
    before, started = os.times(), time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "oomph", "doctor", "--json"], env=environ, capture_output=True, timeout=60
    )
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1e3, cpu * 1e3, (json.loads(ended.stdout)["cuinit_seconds"] or 0.0) * 1e3


def main() -> None:
    """Print a table of medians and maxima."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print("| machine | wall, median (max), ms | CPU, median, ms | of it cuInit, ms |\n| --- | --- | --- | --- |")
    for name, variables in CASES.items():
        runs = [once({**PLAIN, **variables}) for _ in range(rounds)]
        walls, cpus, inits = (sorted(column) for column in zip(*runs, strict=True))
        wall, cpu, init = (statistics.median(column) for column in (walls, cpus, inits))
        print(f"| {name} | {wall:.0f} ({walls[-1]:.0f}) | {cpu:.0f} | {init:.1f} |")


if __name__ == "__main__":
    main()
