"""Kills kernels under nbclient, and counts the deaths that are reported, the orphans, and the fits that resume.

    python benchmarks/notebook_kills.py [--kills N] [--rounds N] [--fits N] [--starts N]

Each kill is a notebook whose second cell kills its kernel: by SIGKILL, SIGSEGV, SIGABRT or, as root with control groups
of version 1, by the OOM killer. It counts as answered if that cell holds the error KernelDied with the right cause, and
the third cell runs with the next number. Then the server, the supervisor, and each pair of server, supervisor and
kernel are killed, and each supervisor or kernel that is alive two seconds later counts as an orphan. Then notebooks
with `%load_ext oomph` and one or two fits, in plain kernels, are killed at random moments and run again: the weights
must be those of an undisturbed kernel without oomph, and no step from before the last checkpoint may be repeated.
Finally, kernels start in turn with and without oomph.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from oomph.protocol.progress import Progress, read_progress

WAYS = {
    "SIGKILL": "import os; os.kill(os.getpid(), 9)",
    "SIGSEGV": "import ctypes; ctypes.string_at(0)",
    "SIGABRT": "import os; os.abort()",
}
OUT_OF_MEMORY = "open({group!r}, 'w').write('0'); kept = [bytearray(1 << 24) for _ in range(64)]"
GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 300 << 20
SUPERVISED = [sys.executable, "-m", "oomph.notebook.kernel", "-f"]
PLAIN = [sys.executable, "-m", "ipykernel_launcher", "-f"]
SERVER = """
import subprocess, sys, time
kernel = subprocess.Popen(sys.argv[1:], start_new_session=True)
print(kernel.pid, flush=True)
while True:
    kernel.poll()
    time.sleep(0.05)
"""
WAIT_SECONDS = 60.0
FIT = "model.fit(x, y, epochs={epochs}, batch_size=8, verbose=0)"
FITS = {1: [FIT.format(epochs=8)], 2: [FIT.format(epochs=4), FIT.format(epochs=5)]}
BEFORE = """
import hashlib, os, time
os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.linspace(0, 1, 16000).reshape(4000, 4)
y = x[:, :2] * 3
layers = [keras.layers.Dense(16, "tanh"), keras.layers.Dropout(0.2), keras.layers.Dense(2)]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("adam", "mse", jit_compile=False)
began = time.monotonic()
"""
AFTER = """
print(time.monotonic() - began)
state = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in state)).hexdigest()
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="in all, over the ways to die (default: 100)")
    parser.add_argument("--rounds", type=int, default=20, help="of killing each one and each pair (default: 20)")
    parser.add_argument("--fits", type=int, default=20, help="of killing notebooks with one or two fits (default: 20)")
    parser.add_argument("--starts", type=int, default=20, help="of each kernel (default: 20)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oomph-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for variable in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            os.environ[variable] = str(folder / variable)
        subprocess.run([sys.executable, "-m", "oomph", "kernel", "install", "--user"], check=True)
        count_answers(folder, args.kills)
        count_orphans(folder, args.rounds)
        count_resumed(folder, args.fits)
        compare_starts(folder, args.starts)


def count_answers(folder: Path, kills: int) -> None:
    """Kill kernels under nbclient, each way in turn."""
    group = GROUPS / f"oomph-kills-{os.getpid()}"
    ways = dict(WAYS)
    if os.access(GROUPS, os.W_OK) and (GROUPS / "memory.limit_in_bytes").exists():
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        ways["OOM killer"] = OUT_OF_MEMORY.format(group=str(group / "cgroup.procs"))
    answered, tried = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
    try:
        for way in itertools.islice(itertools.cycle(ways), kills):
            tried[way] += 1
            answered[way] += is_answered(folder, way, ways[way])
    finally:
        if group.exists():
            time.sleep(0.5)
            group.rmdir()
    for way in ways:
        print(f"answered under its cell, {way:<10} {answered[way]:>4} of {tried[way]}", flush=True)


def is_answered(folder: Path, way: str, dies: str) -> bool:
    """True if the second cell of a notebook says how it died, and the third one runs with the next number."""
    cells = [nbformat.v4.new_code_cell(source) for source in ("1", dies, "print('alive')")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    try:
        NotebookClient(notebook, kernel_name="oomph", allow_errors=True, timeout=WAIT_SECONDS).execute(cwd=str(folder))
    except Exception as error:
        print(f"{way}: {type(error).__name__}: {error}", flush=True)
        return False
    died = [output.evalue for output in cells[1].outputs if output.get("ename") == "KernelDied"]
    named = "memory ran out" if way == "OOM killer" else way
    right = len(died) == 1 and named in died[0]
    if not right:
        print(f"{way}: {[output.get('evalue') or output.get('text') for output in cells[1].outputs]}", flush=True)
    return right and cells[2].execution_count == 3 and cells[2].outputs[-1].text == "alive\n"


def count_orphans(folder: Path, rounds: int) -> None:
    """Kill the server, the supervisor, and each pair of server, supervisor and kernel."""
    roles = ("server", "supervisor", "kernel")
    for victims in [pair for count in (1, 2) for pair in itertools.combinations(roles, count) if pair != ("kernel",)]:
        left = sum(left_after(folder / f"{'-'.join(victims)}-{number}", victims) for number in range(rounds))
        print(f"orphans after killing {' and '.join(victims):<24} {left:>4} in {rounds} rounds", flush=True)


def left_after(folder: Path, victims: tuple[str, ...]) -> int:
    """Return how many of supervisor and kernel are alive two seconds after a kill."""
    folder.mkdir()
    words = [sys.executable, "-c", SERVER, *SUPERVISED, str(folder / "connection.json")]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        pids = {"server": server.pid, "supervisor": int(server.stdout.readline())}
        record = folder / ".oomph" / "notebooks" / "notebook" / "cells" / "current"
        wait_for(record)
        pids["kernel"] = json.loads(record.read_text())["pid"]
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
        time.sleep(2.0)
        left = [role for role, pid in pids.items() if role != "server" and lives(pid)]
        end(pids)
    return len(left)


def end(pids: Mapping[str, int]) -> None:
    """Kill whatever is still alive."""
    for pid in pids.values():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def lives(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for(path: Path) -> None:
    """Wait until a file exists. Raises TimeoutError if that takes too long."""
    until = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"no {path.name}")
        time.sleep(0.002)


def count_resumed(folder: Path, kills: int) -> None:
    """Kill kernels at random moments of their training, run the cells again, and compare the weights."""
    chance = random.Random()
    right, repeated, verified = 0, [], 0
    undisturbed = {fits: trained(folder, fits, "") for fits in FITS}
    for number, fits in zip(range(kills), itertools.cycle(FITS)):
        here = folder / f"fits-{number}"
        here.mkdir()
        killer = Killer(here / ".oomph" / "notebooks" / "notebook", chance.uniform(0, undisturbed[fits].seconds))
        killer.start()
        trained(here, fits, "%load_ext oomph")
        killer.join()
        weights, _, said = trained(here, fits, "%load_ext oomph")
        again = sum(int(figure) for figure in re.findall(r"(\d+) repeated steps compared equal", said))
        since = 0 if killer.stood is None else killer.stood.steps - killer.stood.saved
        is_right = weights == undisturbed[fits].weights and again <= since and killer.stood is not None
        if not is_right:
            print(f"wrong: {fits} fits, killed at {killer.stood}, {again} steps repeated: {said}", flush=True)
        right += is_right
        repeated.append(again)
        verified += "verified: " in said
    print(
        f"in the same bits after a kill {right:>4} of {kills}, {verified} verified, "
        f"{min(repeated, default=0)} to {max(repeated, default=0)} steps repeated",
        flush=True,
    )


class Trained(NamedTuple):
    """A notebook that has run."""

    weights: str
    """A digest of the model's and the optimizer's variables, or an empty string if the kernel died."""
    seconds: float
    """The time from the first fit to the last cell."""
    said: str
    """What oomph said in the earlier cells."""


def trained(folder: Path, fits: int, first: str) -> Trained:
    """Run a notebook in a plain kernel."""
    sources = [first, BEFORE, *FITS[fits], AFTER]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with contextlib.suppress(DeadKernelError):
        NotebookClient(notebook, kernel_name="python3", timeout=WAIT_SECONDS * 4).execute(cwd=str(folder))
    *before, last = [cell.outputs for cell in notebook.cells]
    said = [output.get("data", {}).get("text/plain", "") for outputs in before for output in outputs]
    if not last:
        return Trained("", 0.0, "\n".join(said))
    return Trained(last[1].data["text/plain"], float(last[0].text), "\n".join(said))


class Killer(threading.Thread):
    """Kills the kernel that trains in a run directory, some time after its first step.

    Attributes:
        stood: how far the training was when killed, or None if it had ended.
    """

    def __init__(self, run_dir: Path, delay: float) -> None:
        super().__init__(daemon=True)
        self._run_dir, self._delay = run_dir, delay
        self.stood: Progress | None = None

    def run(self) -> None:
        """Wait for the first step and then for the delay, and kill the kernel."""
        until = time.monotonic() + WAIT_SECONDS
        while (read_progress(self._run_dir) if self._run_dir.exists() else None) is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(self._delay)
        (owner,) = self._run_dir.glob("owner-*")
        try:
            os.kill(int(owner.read_text().split()[0]), signal.SIGKILL)
        except ProcessLookupError:
            return  # the notebook has ended
        time.sleep(0.1)
        self.stood = read_progress(self._run_dir)


def compare_starts(folder: Path, starts: int) -> None:
    """Measure the time and CPU time from a kernel's start to its first line of code, plain and supervised in turn."""
    seconds: dict[str, list[float]] = {"plain": [], "supervised": []}
    cpu: dict[str, list[float]] = {"plain": [], "supervised": []}
    quiet = subprocess.DEVNULL
    started, connection = folder / "started", folder / "connection.json"
    for _ in range(starts):
        for name, argv in (("plain", PLAIN), ("supervised", SUPERVISED)):
            started.unlink(missing_ok=True)
            connection.unlink(missing_ok=True)
            line = f"--IPKernelApp.exec_lines=open({str(started)!r}, 'w').close()"
            began = time.perf_counter()
            kernel = subprocess.Popen([*argv, str(connection), line], cwd=folder, stdout=quiet, stderr=quiet)
            wait_for(started)
            seconds[name].append(time.perf_counter() - began)
            root = psutil.Process(kernel.pid)
            cpu[name].append(sum(sum(each.cpu_times()[:2]) for each in [root, *root.children(recursive=True)]))
            kernel.kill()
            kernel.wait()
    for name in seconds:
        wall, used = statistics.median(seconds[name]), statistics.median(cpu[name])
        print(f"start, {name:<11} {wall:.2f} s (best {min(seconds[name]):.2f} s), CPU {used:.2f} s", flush=True)


if __name__ == "__main__":
    main()
