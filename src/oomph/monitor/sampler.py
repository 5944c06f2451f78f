"""The sampler, a process of its own beside a run: `python -m oomph.monitor.sampler RUN_DIR [PARENT [SCRIPT]]`.

It samples once a second until its parent has ended or SIGTERM arrives, and tells its parent on stdout. It is not a
thread of the supervisor, which forks: NVML does not work after that, and a driver call that hangs would keep it.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from oomph.explain.reading.kernel_log import KernelLog
from oomph.files.run_files import open_own
from oomph.gpu.gpus import Gpus
from oomph.monitor.board import BoardReader
from oomph.monitor.gpu_thread import GpuThread
from oomph.monitor.gpu_watch import GpuWatch
from oomph.monitor.host import Host
from oomph.monitor.parent import Parent
from oomph.monitor.process_tree import ProcessTree
from oomph.monitor.sampling import Sampling
from oomph.monitor.store import Store

EVERY_SECONDS = 1.0
_LOCK = "monitor/sampler"


def main(words: Sequence[str]) -> int:
    """Sample until the end; returns the exit status."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal's, for the script
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_dir = Path(words[0])
    parent_pid, script = (int(word) for word in (*words[1:3], "0", "0")[:2])
    parent = Parent(parent_pid or os.getppid(), sys.stdout.fileno())
    try:
        lock = _locked(run_dir)
    except BlockingIOError:
        parent.tell_problem(f"another sampler is already at work in {run_dir}")
        return 1
    except OSError as error:
        parent.tell_problem(f"no samples can be kept in {run_dir}: {error.strerror}")
        return 1
    thread = GpuThread(Gpus())
    store = Store(run_dir)
    processes = ProcessTree(script, parent_pid or os.getppid())
    gc.freeze()  # what is imported by now stays
    _sample(Sampling(GpuWatch(thread, KernelLog()), Host(), processes, BoardReader(run_dir), store), parent, stop)
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
    """Monotonic times, a second apart. A tick that is missed, as in a laptop's sleep, is not made up for."""
    due = time.monotonic()
    while not stop.is_set():
        yield time.monotonic()
        due += EVERY_SECONDS
        late = time.monotonic() - due
        if late > 0:
            due += (late // EVERY_SECONDS + 1) * EVERY_SECONDS
        stop.wait(due - time.monotonic())


def _locked(run_dir: Path) -> int:
    """Take the lock of this run's sampler; raises BlockingIOError if another one has it, or OSError."""
    lock = open_own(run_dir, _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a driver call that does not return must not keep the process
