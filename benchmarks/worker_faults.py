"""Strikes several workers with random faults, all in one run: `python benchmarks/worker_faults.py [--faults 50]`.

The workers are plain Python, and commit steps as a training does. In each attempt, one of them dies, freezes or loses
another, at a random moment; half of the time, each swallows SIGTERM. Then launchers are killed at random moments.
Prints how long the last worker outlives the first failure. Fails if a run does not end by itself, the wrong worker is
blamed, or if a process is left.
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

from oomph.journal.events import AttemptEnded, WorkerFailed
from oomph.journal.journal import facts, pairs, read_journal

WORKER = """
import json, os, random, signal, sys, time
from oomph.protocol.handover import Handover
from oomph.protocol.progress import ProgressBoard

handover, faults = Handover.read(), int(sys.argv[1])
cluster = json.loads(os.environ["TF_CONFIG"])
rank, workers = cluster["task"]["index"], len(cluster["cluster"]["worker"])
draw = random.Random(f"{sys.argv[2]}-{handover.attempt}")
struck, how, after = draw.randrange(workers), draw.choice(HOW), draw.uniform(0.0, 0.5)
if random.random() < 0.5:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"started-{handover.attempt}-{rank}", "w").close()
while not all(os.path.exists(f"started-{handover.attempt}-{each}") for each in range(workers)):
    time.sleep(0.005)
steps = 10 * handover.attempt
ProgressBoard(handover.path, handover.attempt).write(fit=0, epoch=0, step=steps, steps=steps, saved=steps)
if handover.attempt > faults:
    sys.exit()

def strike():
    with open(f"at-{handover.attempt}", "w") as file:
        file.write(f"{time.time()} {struck} {how}")

time.sleep(after)
if rank == struck and how != "lost":
    strike()
    os.kill(os.getpid(), getattr(signal, how))
elif rank == struck or (how == "SIGSTOP" and rank == (struck + 1) % workers):
    time.sleep(0.1)
    strike()
    print("Collective ops is aborted by: Socket closed", file=sys.stderr, flush=True)
    os._exit(1)
time.sleep(600)
"""
HOW = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGSTOP", "lost")
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
    (folder / "train.py").write_text(WORKER.replace("HOW", repr(HOW)))
    words = ["run", "--no-guard", "--run-dir=run", "--workers", str(workers), "train.py", str(faults), str(seed)]
    with open(folder / "stderr", "wb") as stderr:
        return subprocess.Popen([sys.executable, "-m", "oomph", *words], cwd=folder, stderr=stderr)


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
