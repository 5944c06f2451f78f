"""The time that a `kill -9` costs until it is detected and until the first new step, and that of a plain start.

    python benchmarks/restart.py [--rounds 5]

The bound: a plain start up to its first step (Python, `import tensorflow`, tracing), plus loading the checkpoint, and
1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oomph.journal.journal import read_journal

SCRIPT = Path(__file__).with_name("chaos_training.py")
SECONDS = 120


def steps(folder: Path) -> list[dict]:
    try:
        return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return []


def wait_for(folder: Path, pids: int, count: int) -> list[dict]:
    """Until that many processes have taken steps, and that many steps are done in all."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found = steps(folder)
        if len({step["pid"] for step in found}) >= pids and len(found) >= count:
            return found
        time.sleep(0.005)
    raise TimeoutError(folder)


def start(folder: Path, *argv: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(
        [sys.executable, *argv], cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def plain(folder: Path) -> float:
    began = time.time()
    process = start(folder, str(SCRIPT), "out.npz")
    first = wait_for(folder, 1, 1)[0]["at"] - began
    process.wait(SECONDS)
    return first


def killed(folder: Path) -> tuple[float, float, float]:
    """(seconds until it was seen, until the first new step, of loading the checkpoint)."""
    process = start(folder, "-m", "oomph", "run", "--run-dir=run", "--checkpoint-every=5", str(SCRIPT), "out.npz")
    pid = wait_for(folder, 1, 20)[-1]["pid"]
    at = time.time()
    os.kill(pid, signal.SIGKILL)
    new = next(step["at"] for step in wait_for(folder, 2, 21) if step["pid"] != pid)
    process.wait(SECONDS)
    events = read_journal(folder / "run")
    seen = next(event.time for event in events if event.name == "attempt-ended")
    load = next(float(event.data["seconds"]) for event in events if event.name == "resumed")
    return seen - at, new - at, load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    starts, kills = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for kind in ("plain", "killed"):
                (Path(folder) / f"{kind}{number}").mkdir()
            starts.append(plain(Path(folder) / f"plain{number}"))
            kills.append(killed(Path(folder) / f"killed{number}"))
            print(f"plain {starts[-1]:.2f} s; killed: seen {kills[-1][0]:.3f} s, step {kills[-1][1]:.2f} s", flush=True)
    seen, new, load = (statistics.median(column) for column in zip(*kills, strict=True))
    usual = statistics.median(starts)
    print(f"medians of {rounds}: seen after {seen:.3f} s; first new step after {new:.2f} s")
    print(
        f"plain start to its first step {usual:.2f} s, loading {load:.2f} s: {new - usual - load:+.2f} s (bound +1 s)"
    )
    return 0 if seen <= 0.2 and new <= usual + load + 1 else 1


if __name__ == "__main__":
    sys.exit(main())
