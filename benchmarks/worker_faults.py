"""Strikes several workers with random faults, all in one run: `python benchmarks/worker_faults.py [--faults 50]`.

The workers are plain Python. They take steps together, as a training does, and save at common borders, at a speed of
their own. In each attempt, one of them dies, freezes or loses another, at a random moment; half of the time, each
swallows SIGTERM. Then launchers are killed at random moments. Prints how long the last worker outlives the first
failure, and how many steps an attempt repeats. Fails if a run does not end by itself or not with the numbers of an
undisturbed one, if the wrong worker is blamed, or if a process is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from struck_worker import EVERY, part

from oomph.journal.events import AttemptEnded, WorkerFailed
from oomph.journal.journal import facts, pairs, read_journal

WORKER = Path(__file__).with_name("struck_worker.py")
OUTCOMES = {"SIGSTOP": "hang", "lost": "worker-lost"}
MOST_SECONDS_EACH = 5.0
ORPHAN_SECONDS = 2.0


def left(folder: Path) -> list[int]:
    """Return the PIDs of the processes whose working directory is the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def start(folder: Path, workers: int, faults: int, seed: int) -> subprocess.Popen[bytes]:
    """Start the run."""
    words = ["run", "--no-guard", "--run-dir=run", "--workers", str(workers), str(WORKER), str(faults), str(seed)]
    with open(folder / "stderr", "wb") as stderr:
        return subprocess.Popen([sys.executable, "-m", "oomph", *words], cwd=folder, stderr=stderr)


def repeated(folder: Path, workers: int) -> list[int]:
    """Return the steps that each attempt repeats, once all workers have begun it at the same step."""
    events = read_journal(folder / "run")
    found, reached = [], 0
    for event, ended in pairs(events, AttemptEnded):
        begun = {(folder / f"begun-{event.attempt}-{rank}").read_text() for rank in range(workers)}
        if len(begun) != 1:
            sys.exit(f"attempt {event.attempt} begins at different steps: {begun}")
        found.append(reached - int(begun.pop()))
        reached = ended.steps or 0
    return found


def check_weights(folder: Path, workers: int) -> None:
    """Fail if a worker does not end with the weight that an undisturbed run would have."""
    for rank in range(workers):
        steps, weight = (folder / f"weight-{rank}").read_text().split()
        wanted = 0.0
        for step in range(int(steps)):
            wanted = 0.9 * wanted + sum(part(step, each) for each in range(workers))
        if float(weight) != wanted:
            sys.exit(f"worker {rank} ends with {weight} after {steps} steps, not with {wanted}")
    print(f"{steps} steps; all workers end with the numbers of an undisturbed run")


def strike_workers(folder: Path, workers: int, faults: int, seed: int) -> list[float]:
    """Run with so many faults, and return the seconds from each to the end of all workers."""
    code = start(folder, workers, faults, seed).wait(60 + MOST_SECONDS_EACH * faults)
    events = read_journal(folder / "run")
    down = [
        event.time - float((folder / f"at-{event.attempt}").read_text().split()[0])
        for event, ended in pairs(events, AttemptEnded)
        if ended.returncode != 0
    ]
    wrong = 0
    for event, failed in pairs(events, WorkerFailed):
        _, struck, how = (folder / f"at-{event.attempt}").read_text().split()
        wrong += failed.cause and (failed.worker != int(struck) or failed.fault != OUTCOMES.get(how, failed.fault))
    attempts = len(facts(events, AttemptEnded))
    print(f"{faults} faults: exit code {code}, {attempts} attempts, {wrong} blamed on another worker or fault")
    if code != 0 or attempts != faults + 1 or wrong or left(folder):
        said = (folder / "stderr").read_text(errors="replace")[-4000:]
        sys.exit(f"{said}\nfailed; left: {left(folder)}; seed {seed}")
    check_weights(folder, workers)
    again = repeated(folder, workers)
    print(f"checkpoints every {EVERY} steps; an attempt repeats {statistics.mean(again):.1f}, at most {max(again)}")
    return down


def kill_launcher(folder: Path, workers: int, draw: random.Random) -> None:
    """Kill the launcher at a random moment, and fail if one of its processes is left."""
    process = start(folder, workers, 1000, draw.randrange(10**9))
    time.sleep(draw.uniform(0.1, 2.0))
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + ORPHAN_SECONDS
    while left(folder):
        if time.monotonic() > until:
            sys.exit(f"left behind: {left(folder)}")
        time.sleep(0.02)


def main() -> None:
    """Strike, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--launchers", type=int, default=20, help="how often to kill the launcher")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        down = strike_workers(Path(os.path.realpath(folder)), args.workers, args.faults, args.seed)
    figures = {"median": statistics.median(down), "most": max(down)}
    print(f"first failure to the last worker's end: {json.dumps({name: round(x, 2) for name, x in figures.items()})} s")
    for _ in range(args.launchers):
        with tempfile.TemporaryDirectory() as folder:
            kill_launcher(Path(os.path.realpath(folder)), args.workers, draw)
    print(f"{args.launchers} launchers killed: nothing left")


if __name__ == "__main__":
    main()
