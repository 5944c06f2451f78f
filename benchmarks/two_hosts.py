"""Trains two workers on two hosts, and pulls the cable between them: `python benchmarks/two_hosts.py [CASE ...]`.

The hosts are network namespaces, joined by virtual interfaces, with one shared folder. Needs root and iproute2.
The cases: `moment` pulls the cable for five seconds, `good` for good, and `clock` sets the clock of one host an hour
ahead (needs faketime). `evicted` takes away one host of a training by `fit`. A run that is sent back is
started again, as a scheduler would, and has to end with the weights of an undisturbed run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STEP_SECONDS = 0.3
LIMIT_SECONDS = 150
LOOP, FITS = "train.py", "fits.py"
Started = list[subprocess.Popen[bytes]]
HOSTS = ("10.77.0.1", "10.77.0.2")


class Pair:
    """Two hosts, and the cable between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [f"oomph-{os.getpid()}-{rank}" for rank in range(2)]

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Create the hosts, and remove them."""
        links = [f"oo{os.getpid()}x{rank}" for rank in range(2)]
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip(
                "link",
                "add",
                links[0],
                "netns",
                self.names[0],
                "type",
                "veth",
                "peer",
                links[1],
                "netns",
                self.names[1],
            )
            for name, link, host in zip(self.names, links, HOSTS, strict=True):
                ip("-n", name, "addr", "add", f"{host}/24", "dev", link)
                ip("-n", name, "link", "set", link, "up")
                ip("-n", name, "link", "set", "lo", "up")
            self._link = links[0]
            yield
        finally:
            for name in self.names:
                subprocess.run(["ip", "netns", "del", name], timeout=30, check=False, stderr=subprocess.DEVNULL)

    def set_cable(self, state: str) -> None:
        """Pull the cable ("down") or plug it in ("up")."""
        ip("-n", self.names[0], "link", "set", self._link, state)

    def start(self, job: str, script: str, clock: Sequence[str] = ()) -> list[subprocess.Popen[bytes]]:
        """Start both workers of a job, the second with another clock."""
        started = []
        for rank, (name, host) in enumerate(zip(self.names, HOSTS, strict=True)):
            place = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"}
            environ = {**os.environ, **place, "SLURMD_NODENAME": host, "CUDA_VISIBLE_DEVICES": "-1"}
            words = [sys.executable, "-m", "oomph", "run", "--engine=env", "--resume", script, f"job{job}"]
            with open(self.folder / f"output-{job}-{rank}", "ab") as log:
                started.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", name, *(clock if rank else ()), *words],
                        cwd=self.folder, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                    )
                )  # fmt: skip
        return started


def main() -> None:
    """Run the cases that the command line names, or all."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if os.geteuid() != 0 or shutil.which("ip") is None:
        sys.exit("needs root and iproute2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        scripts = ROOT / "tests/end_to_end/scripts"
        loop = (scripts / "several_workers.py").read_text()
        (folder / LOOP).write_text(loop.replace("    train(x[", f"    time.sleep({STEP_SECONDS}); train(x["))
        fits = (scripts / "fits_of_workers.py").read_text()
        (folder / FITS).write_text(fits.replace("losses = []", 'print("from step", flush=True)\nlosses = []'))
        pair = Pair(folder)
        undisturbed: dict[str, list[np.ndarray]] = {}
        with pair.connected():
            for number, case in enumerate(sys.argv[1:] or CASES, 1):
                script, disturbed = CASES[case]
                if script not in undisturbed:
                    run(pair, f"{number}0", script)
                    undisturbed[script] = weights(folder, f"{number}0")
                disturbed(pair, str(number))
                pairs = zip(weights(folder, str(number)), undisturbed[script], strict=True)
                worst = max(float(abs(one - other).max()) for one, other in pairs)
                print(f"{case}: largest difference to the undisturbed weights {worst:g}", flush=True)
                if worst > 1e-12:
                    sys.exit("the weights differ")


def pulled_for_a_moment(pair: Pair, job: str) -> None:
    """Pull the cable for five seconds."""

    def pull(_: Started) -> None:
        pair.set_cable("down")
        time.sleep(5.0)
        pair.set_cable("up")

    codes = run(pair, job, LOOP, pull)
    print(f"moment: the cable pulled for 5 s: exit codes {codes}", flush=True)
    again(pair, job, LOOP, codes)


def pulled_for_good(pair: Pair, job: str) -> None:
    """Pull the cable until both workers have ended."""
    codes = run(pair, job, LOOP, lambda _: pair.set_cable("down"))
    pair.set_cable("up")
    print(f"good: the cable pulled for good: exit codes {codes}", flush=True)
    again(pair, job, LOOP, codes)


def clock_ahead(pair: Pair, job: str) -> None:
    """Set one clock an hour ahead, and end a worker, so that the run is resumed."""
    if shutil.which("faketime") is None:
        sys.exit("clock: faketime not found; on Debian: apt-get install faketime")
    clock = ["faketime", "-f", "+1h"]
    codes = run(pair, job, LOOP, lambda _: pair.set_cable("down"), clock)
    pair.set_cable("up")
    print(f"clock: one clock an hour ahead, the cable pulled for good: exit codes {codes}", flush=True)
    again(pair, job, LOOP, codes, clock)


def evicted(pair: Pair, job: str) -> None:
    """Send SIGTERM to one host, once both have saved by themselves."""

    def evict(started: Started) -> None:
        while output(pair.folder, job).count("oomph: checkpoint of") < 2 and started[1].poll() is None:
            time.sleep(0.1)
        started[1].terminate()

    codes = run(pair, job, FITS, evict)
    print(f"evicted: SIGTERM to one host: exit codes {codes}", flush=True)
    again(pair, job, FITS, codes)
    said = output(pair.folder, job).splitlines()
    for text in ("steps are saved; exiting", "oomph: resumed fit at"):
        lines = [line.partition(")")[0] for line in said if text in line]
        print("\n".join(lines), flush=True)
        if len(lines) != 2 or len(set(lines)) != 1:
            sys.exit(f"{output(pair.folder, job)}\nthe workers did not stop, or resume, at the same step")


CASES: dict[str, tuple[str, Callable[[Pair, str], None]]] = {
    "moment": (LOOP, pulled_for_a_moment),
    "good": (LOOP, pulled_for_good),
    "clock": (LOOP, clock_ahead),
    "evicted": (FITS, evicted),
}


def again(pair: Pair, job: str, script: str, codes: Sequence[int], clock: Sequence[str] = ()) -> None:
    """Start a job again that was sent back, until it has finished."""
    if set(codes) not in ({0}, {75}):
        sys.exit(f"{output(pair.folder, job)}\nthe workers do not agree on what a scheduler should do: {codes}")
    if set(codes) == {75}:
        codes = run(pair, job, script, clock=clock)
        if set(codes) != {0}:
            sys.exit(f"{output(pair.folder, job)}\nthe next start ended with {codes}")


def run(
    pair: Pair, job: str, script: str, disturb: Callable[[Started], None] = lambda _: None, clock: Sequence[str] = ()
) -> list[int]:
    """Run both workers, disturb them once they train, and return their exit codes."""
    before = output(pair.folder, job).count("from step")
    started = pair.start(job, script, clock)
    try:
        until = time.monotonic() + LIMIT_SECONDS
        while output(pair.folder, job).count("from step") < before + 2:
            if time.monotonic() > until or any(each.poll() for each in started):
                sys.exit(f"{output(pair.folder, job)}\nthe workers do not train")
            time.sleep(0.1)
        time.sleep(12 * STEP_SECONDS)
        since = time.monotonic()
        disturb(started)
        codes = []
        for each in started:
            codes.append(each.wait(LIMIT_SECONDS))
            print(f"job {job}: a worker ended {time.monotonic() - since:.1f} s after the disturbance began", flush=True)
        return codes
    finally:
        for each in started:
            each.kill()
            each.wait()


def output(folder: Path, job: str) -> str:
    """Return what both workers have printed."""
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob(f"output-{job}-?")))


def weights(folder: Path, job: str) -> list[np.ndarray]:
    """Return the weights of both workers."""
    found = []
    for rank in range(2):
        with np.load(folder / f"job{job}-{rank}.npz") as arrays:
            found += [arrays[name] for name in arrays.files]
    return found


def ip(*words: str) -> None:
    """Run the command `ip`."""
    subprocess.run(["ip", *words], check=True, timeout=30)


if __name__ == "__main__":
    main()
