"""The sampler, a separate process alongside a run: `python -m oomph.monitor.sampler RUN_DIR [PARENT [SCRIPT]]`.

It samples once a second until its parent exits or SIGTERM arrives, and reports to its parent on stdout. It is not a
thread of the supervisor, because the supervisor forks, after which NVML no longer works, and because a hanging driver
call would block it.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from oomph.explain.reading.kernel_log import KernelLog
from oomph.files.opening import open_own
from oomph.gpu.gpus import Gpus
from oomph.monitor.board import BoardReader
from oomph.monitor.detection import Detection
from oomph.monitor.finding import FindingChanges, to_lines
from oomph.monitor.gpu_watch import GpuThread, GpuWatch
from oomph.monitor.host import Host, ProcessTree
from oomph.monitor.pace import PaceReading, read_paces
from oomph.monitor.sample import Sample
from oomph.monitor.store import Store

_MOST_UNSAID_BYTES = 1 << 20
"""The maximum number of bytes to buffer for a parent that does not read. Lines beyond it are dropped."""


class Parent:
    """The process that started the sampler. It is sent one line of JSON per change or problem, without blocking.

    Args:
        pid: the parent's pid.
        fd: the pipe to the parent.
    """

    def __init__(self, pid: int, fd: int) -> None:
        self._pid, self._fd = pid, fd
        self._unsaid = b""
        self._problem = ""
        self._listens = True
        if stat.S_ISFIFO(os.fstat(fd).st_mode):  # on a terminal, this would affect every process that uses it
            os.set_blocking(fd, False)

    @property
    def is_gone(self) -> bool:
        """True if the parent has exited or closed the pipe."""
        return os.getppid() != self._pid or not self._listens

    def tell(self, changes: FindingChanges) -> None:
        """Report the changes in the findings."""
        for line in to_lines(changes):
            self._say(line)

    def tell_problem(self, problem: str) -> None:
        """Report the reason for missing samples whenever it changes. It is empty once there are samples again."""
        if problem != self._problem:
            self._problem = problem
            self._say(json.dumps({"problem": problem}) + "\n")

    def flush(self) -> None:
        """Write the lines that could not be written before."""
        while self._unsaid:
            try:
                self._unsaid = self._unsaid[os.write(self._fd, self._unsaid) :]
            except BlockingIOError:
                return  # the pipe is full
            except OSError:
                self._listens, self._unsaid = False, b""

    def _say(self, line: str) -> None:
        data = line.encode()
        if len(self._unsaid) + len(data) <= _MOST_UNSAID_BYTES:
            self._unsaid += data
        self.flush()


class Keeper(Protocol):
    """The interface of a sample store, implemented by `oomph.monitor.store.Store`."""

    problem: str

    def append(self, sample: Sample, /) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


_PACES_SECONDS = 10.0


class PaceReader:
    """Reads how far the workers of a run are, every ten seconds."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._due = 0.0

    def read(self, now: float) -> Mapping[int, PaceReading]:
        """Return the newest reading of each worker, by rank; empty if none is due, or there is only one worker."""
        if now < self._due:
            return {}
        self._due = now + _PACES_SECONDS
        return {pace.rank: pace.newest for pace in read_paces(self._run_dir, is_newest_only=True)}


@dataclass
class Sampling:
    """Combines the sources of samples, the store, and the detection of faults."""

    gpus: GpuWatch
    host: Host
    processes: ProcessTree
    board: BoardReader
    paces: PaceReader
    store: Keeper
    detection: Detection = field(default_factory=Detection)

    def take(self, now: float, unix_time: float | None = None) -> FindingChanges:
        """Take a sample at a monotonic time, in seconds, and store it. Return the changes in findings."""
        self.gpus.ask(now)  # a thread reads the GPUs while the rest is read here
        host, process = self.host.read(now), self.processes.read(now)
        training, baselines = self.board.read()
        gpus = self.gpus.gpus(now, self.processes.owns)
        problems = {"nvml": self.gpus.problem, "store": self.store.problem, "detectors": self.detection.problem}
        sample = Sample(
            time.time() if unix_time is None else unix_time,
            gpus,
            host,
            process,
            training,
            baselines,
            {source: problem for source, problem in problems.items() if problem},
            self.processes.shares,
            self.board.census(),
            self.paces.read(now),
        )
        self.store.append(sample)
        changes = self.detection.take(sample)
        if changes.told:
            self.store.sync()  # the machine may be about to fail
        return changes


EVERY_SECONDS = 1.0
_LOCK = "monitor/sampler"


def main(words: Sequence[str]) -> int:
    """Sample until the parent exits or SIGTERM arrives, and return the exit status."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # signals from the terminal or a scheduler are meant for the script
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_dir = Path(words[0])
    parent_pid, script = (int(word) for word in (*words[1:3], "0", "0")[:2])
    parent = Parent(parent_pid or os.getppid(), sys.stdout.fileno())
    try:
        lock = _locked(run_dir)
    except BlockingIOError:
        parent.tell_problem(f"another sampler is already running in {run_dir}")
        return 1
    except OSError as error:
        parent.tell_problem(f"cannot store samples in {run_dir}: {error.strerror}")
        return 1
    thread = GpuThread(Gpus())
    store = Store(run_dir)
    processes = ProcessTree(script, parent_pid or os.getppid())
    gc.freeze()  # everything imported so far is permanent
    sources = GpuWatch(thread, KernelLog()), Host(), processes, BoardReader(run_dir), PaceReader(run_dir)
    _sample(Sampling(*sources, store), parent, stop)
    thread.close()
    store.close()
    os.close(lock)
    return 0


def _sample(sampling: Sampling, parent: Parent, stop: threading.Event) -> None:
    for now in _ticks(stop):
        if parent.is_gone:
            return
        parent.tell(sampling.take(now))
        parent.tell_problem(sampling.store.problem or sampling.detection.problem)
        parent.flush()


def _ticks(stop: threading.Event) -> Iterator[float]:
    """Yield monotonic times, one second apart. Missed ticks, as when a laptop sleeps, are skipped."""
    due = time.monotonic()
    while not stop.is_set():
        yield time.monotonic()
        due += EVERY_SECONDS
        late = time.monotonic() - due
        if late > 0:
            due += (late // EVERY_SECONDS + 1) * EVERY_SECONDS
        stop.wait(due - time.monotonic())


def _locked(run_dir: Path) -> int:
    """Acquire the lock for this run's sampler. Raises BlockingIOError if it is taken, or a different OSError."""
    lock = open_own(run_dir, _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a driver call that never returns must not keep the process alive
