"""Runs that seem to be in progress: their directories are locked, and get a sample every second."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oomph.journal.events import AttemptStarted, FindingMade, RunStarted
from oomph.journal.journal import Journal
from oomph.monitor.sample import GpuProcess, GpuSample, Sample
from oomph.monitor.store import Store
from oomph.protocol.progress import ProgressBoard
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord

GIB = 1 << 30
HISTORY_SECONDS = 200
_STEPS_PER_SECOND, _BATCH, _PER_EPOCH = 40, 128, 469


class _LiveRun:
    def __init__(self, folder: Path, place: int, script: str, message: str, gpus: int) -> None:
        name = f"20261125-0900{place:02}-{place}"
        self._run = RunDirectory.create(
            folder / ".oomph/runs" / name, RunRecord((script,), "python", str(folder), "", attempts=1)
        )
        self._place, self._gpus = place, gpus
        self._begin = time.time() - HISTORY_SECONDS
        journal = Journal(self._run.path, 1, "supervisor")
        for fact in (RunStarted(), AttemptStarted()):
            journal.write(fact)
        if message:
            journal.write(FindingMade(fault="memory-leak", subject="GPU 0", message=message, remedy="Look for a list."))
        journal.close()
        self._store, self._board = Store(self._run.path), ProgressBoard(self._run.path, 1)
        for at in range(HISTORY_SECONDS):
            self._store.append(self._sample(time.time() - HISTORY_SECONDS + at))
        self.go_on()

    def go_on(self) -> None:
        sample = self._sample(time.time())
        steps = int(sample.training["steps_total"])
        self._store.append(sample)
        self._board.write(0, steps // _PER_EPOCH, steps % _PER_EPOCH, steps, 0)

    def close(self) -> None:
        self._store.close()
        self._board.close()
        self._run.update(status=FINISHED)
        self._run.close()

    def _sample(self, at: float) -> Sample:
        past = at - self._begin
        steps, wave = int(past * _STEPS_PER_SECOND), math.sin(past / 9)
        training = {
            "epochs": 90.0,
            "steps_per_epoch": float(_PER_EPOCH),
            "steps_total": float(steps),
            "examples_total": float(steps * _BATCH),
            "step_seconds_total": past * 0.9,
            "input_wait_seconds_total": past * 0.09,
            "recent_loss": 0.3 + 0.1 * wave,
            "loss": 0.1234567,
            "allocator_in_use_bytes": (40 + 10 * wave) * GIB,
            "allocator_peak_bytes": 63.2 * GIB,
            "allocator_limit_bytes": 71.9 * GIB,
        }
        host = {"memory_used_bytes": 20.0 * GIB, "memory_total_bytes": 64.0 * GIB, "cpu_ratio": 0.3 + 0.2 * wave}
        process = {"resident_bytes": (3 + past / 1000) * GIB, "cpu_cores": 2.3}
        gpus = tuple(self._gpu(index, 0.5 + 0.4 * wave) for index in range(self._gpus))
        return Sample(at, gpus, host, process, training)

    def _gpu(self, index: int, use: float) -> GpuSample:
        values = {
            "memory_used_bytes": (79.5 if index == 0 else 76.0 if index == 1 else 40.0) * GIB,
            "memory_total_bytes": 80.0 * GIB,
            "utilization_ratio": use,
            "temperature_celsius": 60.0 + 26 * (index == 1),
            "temperature_slowdown_celsius": 90.0,
            "power_watts": 500.0,
            "power_limit_watts": 700.0,
        }
        processes = (GpuProcess(4000 + index, 3 * GIB, "python", own=index == self._place),)
        return GpuSample(index, f"GPU-{index:08}", "Fake H100 80GB", values, processes)


@contextmanager
def live_runs(
    folder: Path, scripts: Sequence[str] = ("train.py", "tune.py", "encode.py"), message: str = "", gpus: int = 4
) -> Iterator[None]:
    """Keep a run of each script in progress, each of which has a finding if there is a message."""
    runs = [_LiveRun(folder, place, script, message, gpus) for place, script in enumerate(scripts)]
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(1.0):
            for run in runs:
                run.go_on()

    sampler = threading.Thread(target=work)
    sampler.start()
    try:
        yield
    finally:
        ended.set()
        sampler.join()
        for run in runs:
            run.close()
