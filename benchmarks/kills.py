"""kill -9 of the script, the supervisor, the watchdog and combinations of them, at random moments of real trainings.

    python benchmarks/kills.py [--kills 300] [--jobs 2] [--out build/kills]

Each run is a training of two fits with dropout, Adam and callbacks that keep state. Its script starts a worker with
`subprocess`, which outlives its parent unless somebody ends it. A run is killed up to six times, and every third kill
is followed by another within 100 ms. After the supervisor ends, no process of the run may survive, and its lock must
be free; then the run is started again with `--resume`. The final weights must match the undisturbed training bit for
bit. Every exit code must be right: that of the kill, 0 at the end, and 93 only if the script died twice in a row
before any training. Every label must promise the same bits, or be "started-over" if nothing had been saved yet.
Exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from oomph.journal.journal import read_journal

SCRIPT = '''
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
import keras, numpy as np
keras.utils.set_random_seed(3)
x, y = np.random.rand(160, 8).astype("float32"), np.random.rand(160, 1).astype("float32")
class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((8,)), *layers])
model.compile("adam", "mse", jit_compile=False)
for number in range(2):
    model.fit(x, y, batch_size=8, epochs=4, validation_split=0.2, verbose=0, callbacks=[
        Pace(), keras.callbacks.ReduceLROnPlateau(patience=1, cooldown=1), keras.callbacks.EarlyStopping(patience=9)])
np.savez(sys.argv[1], *model.get_weights(), *[v.numpy() for v in model.optimizer.variables])
worker.kill()
worker.wait()
'''  # fmt: skip
TARGETS = (
    ("script",), ("script",), ("supervisor",), ("watchdog",), ("supervisor", "watchdog"), ("watchdog", "supervisor"),
    ("script", "supervisor"), ("supervisor", "script"), ("watchdog", "script"), ("script", "watchdog", "supervisor"),
)  # fmt: skip
MOST_BLOWS = 6
LONGEST_SECONDS = 180
RIGHT_CODES = {0, -signal.SIGKILL}


class Run:
    """One training, struck again and again until its blows are used up.

    Args:
        number: draws its blows; the same for the same number.
    """

    def __init__(self, number: int, out: Path) -> None:
        self.number, self.folder, self.dice = number, out / f"run-{number}", random.Random(number)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "train.py").write_text(SCRIPT)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OOMPH_")}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
        self.environ = {**clean, **quiet, "OMP_NUM_THREADS": "1", "KILLS_RUN": str(self.folder)}
        self.problems: list[str] = []
        self.blows: Counter[str] = Counter()
        self.kills = 0
        self.starts = 0

    def go(self, plain: Path) -> None:
        """To its end, then all that can be checked of it."""
        left, until = self.dice.randint(3, MOST_BLOWS), time.monotonic() + LONGEST_SECONDS
        code: int | None = None
        while code != 0 and time.monotonic() < until:
            code, left = self._start(left, until)
            self._check_end(code)
        if code != 0:
            self.problems.append(f"not over after {LONGEST_SECONDS} s: {code}")
            self._end()
        elif differ := _differ(self.folder / "out.npz", plain):
            self.problems.append(f"other bits in {differ} arrays")
        if code == 0:
            label = json.loads((self.folder / "run/summary.json").read_text())["exactness"]
            right = ("exact", "verified", "unverified", *(["started-over"] if self._left_no_checkpoint() else []))
            self.problems += [] if label in right else [f"labelled {label}"]

    def _start(self, left: int, until: float) -> tuple[int | None, int]:
        """One life of the supervisor; its exit code, and the blows that are left."""
        argv = [sys.executable, "-m", "oomph", "run", "--resume=run", "--checkpoint-every=7", "train.py", "out.npz"]
        self.starts += 1
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                argv, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        while left and process.poll() is None:
            self._wait(process, self.dice.uniform(0, 7))
            if process.poll() is None:
                self._strike(process.pid)
                left -= 1
        try:
            return process.wait(max(1.0, until - time.monotonic())), left
        except subprocess.TimeoutExpired:
            return None, left

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def _strike(self, supervisor: int) -> None:
        """One blow; every third time another one within 100 ms, where it finds a living target."""
        for number in range(2 if self.dice.random() < 1 / 3 else 1):
            if number:
                time.sleep(self.dice.uniform(0, 0.1))
            targets = self.dice.choice(TARGETS)
            self.blows["+".join(targets)] += 1
            found = self._roles(supervisor)
            for target in targets:
                self._kill(found.get(target))

    def _kill(self, pid: int | None) -> None:
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
                self.kills += 1
            except ProcessLookupError:
                pass

    def _roles(self, supervisor: int) -> dict[str, int]:
        """Who is who: the script leads a group in the supervisor's session, the watchdog a session of its own."""
        found = {"supervisor": supervisor}
        try:
            for child in psutil.Process(supervisor).children():
                if os.getsid(child.pid) == child.pid:
                    found["watchdog"] = child.pid
                elif os.getpgid(child.pid) == child.pid:
                    found["script"] = child.pid
        except (psutil.Error, ProcessLookupError):
            pass
        return found

    def _check_end(self, code: int | None) -> None:
        if not _within(5, lambda: not self._alive()):
            names = [" ".join(process.cmdline())[:60] for process in self._alive()]
            self.problems.append(f"left after exit code {code}: {names}")
            self._end()
        if not _within(5, self._is_free):  # a process during teardown shows no environment, but still holds the lock
            self.problems.append("the lock is held")
        if code not in RIGHT_CODES and not (code == 93 and self._died_twice_before_training()):
            self.problems.append(f"exit code {code}")

    def _left_no_checkpoint(self) -> bool:
        """Whether a training was killed that nothing had been saved of yet."""
        events = read_journal(self.folder / "run")
        begun, saved = ({e.attempt for e in events if e.name == name} for name in ("fit-started", "checkpoint"))
        return bool(begun) and min(begun) < min(saved, default=0)

    def _died_twice_before_training(self) -> bool:
        reasons = [event.data["reason"] for event in read_journal(self.folder / "run") if event.name == "decided"]
        return bool(reasons) and "before any training" in reasons[-1]

    def _is_free(self) -> bool:
        try:
            with (self.folder / "run/lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _alive(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("KILLS_RUN") == str(self.folder) and process.status() != "zombie":
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def _end(self) -> None:
        for process in self._alive():
            process.kill()


def _within(seconds: float, look) -> bool:
    until = time.monotonic() + seconds
    while not look():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _differ(ours: Path, plain: Path) -> int:
    with np.load(ours) as mine, np.load(plain) as theirs:
        return sum(mine[name].tobytes() != theirs[name].tobytes() for name in theirs.files)


def _plain(out: Path) -> Path:
    run = Run(-1, out)
    subprocess.run([sys.executable, "train.py", "out.npz"], cwd=run.folder, env=run.environ, check=True, timeout=120)
    return run.folder / "out.npz"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--out", type=Path, default=Path("build/kills"))
    args = parser.parse_args()
    out = args.out.resolve()
    plain, runs, began = _plain(out), [], time.monotonic()

    def go(number: int) -> None:
        if sum(run.kills for run in runs) >= args.kills:
            return
        run = Run(number, out)
        runs.append(run)
        run.go(plain)
        told = "; ".join(run.problems) or "same bits"
        print(f"run {number}: {run.kills} kills, {run.starts} starts: {told}", flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(go, range(args.first, args.first + args.kills)))
    blows: Counter[str] = sum((run.blows for run in runs), Counter())
    wrong = [run for run in runs if run.problems]
    kills, seconds = sum(run.kills for run in runs), time.monotonic() - began
    print(f"{kills} kills in {len(runs)} runs, {seconds:.0f} s; {len(wrong)} wrong")
    print(", ".join(f"{name}: {count}" for name, count in blows.most_common()))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
