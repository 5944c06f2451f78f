"""The feed: reads the runs and the GPUs on request, without changing them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from oomph.explain.reading.kernel_log import KernelLog
from oomph.gpu.gpus import Gpus
from oomph.monitor.detection import Detection
from oomph.monitor.gpu_watch import GpuThread, GpuWatch
from oomph.monitor.host import Host
from oomph.monitor.sample import Sample
from oomph.process.process_identity import host
from oomph.watch.incidents import ShownIncident, incident_of
from oomph.watch.job import Run, job_of, silence
from oomph.watch.runs import KEPT, RunReader, going_on, is_elsewhere, runs_of
from oomph.watch.view import View, view_of

_CHOOSE_SECONDS = 5.0
_MOST_RUNS = 32
_FIRST_SECONDS = 6.0


class Feed:
    """Reads a single run, or all running ones in some folders, or the newest run if none is running."""

    def __init__(self, asked: Path | None, *folders: Path) -> None:
        self._asked, self._folders = asked, folders
        self._readers: dict[Path, RunReader] = {}
        self._chosen_at = float("-inf")
        self._machine: MachineFeed | None = None
        self._measured: deque[Sample] = deque(maxlen=KEPT)
        self._present = Present()

    def look(self) -> View:
        """Return the current view."""
        runs = [run for reader in self._chosen() if (run := reader.read()) is not None]
        samples, problems, machine = self._samples(runs, time.time())
        now = time.time()
        is_over = self._asked is not None and bool(runs) and not runs[0].going_on
        unknown = is_over or silence(now, samples)  # current findings are then unknown
        present = [] if unknown else self._present.take(samples)
        return view_of(now, samples, [job_of(run) for run in runs], present, problems, machine)

    def first_look(self) -> View:
        """Return the current view, after waiting for this machine's GPUs: NVML may take a few seconds to start."""
        begin, view = time.monotonic(), self.look()
        while self._machine is not None and not (view.gpus or view.problems):
            if time.monotonic() - begin > _FIRST_SECONDS:
                break
            view = self.look()
        return view

    def close(self) -> None:
        """Stop measuring."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _samples(self, runs: Sequence[Run], now: float) -> tuple[Sequence[Sample], dict[str, str], str]:
        """Return the samples of a running run, or of the requested run, or those taken by this process.

        Also returns why there are none, and the name of the machine that was sampled.
        """
        fresh = next((run for run in runs if run.going_on and run.samples and not silence(now, run.samples)), None)
        if fresh is not None:
            self.close()
            return fresh.samples, {}, fresh.record.host or host()
        if self._asked is not None and runs and (not runs[0].going_on or is_elsewhere(self._asked)):
            return runs[0].samples, _silent(runs, now), runs[0].record.host or host()
        if self._machine is None:
            self._machine = MachineFeed()
        self._measured.append(self._machine.sample())
        return tuple(self._measured), _silent(runs, now), host()

    def _chosen(self) -> Sequence[RunReader]:
        if self._asked is not None:
            chosen = [self._asked]
        elif time.monotonic() - self._chosen_at > _CHOOSE_SECONDS:
            self._chosen_at = time.monotonic()
            chosen = self._in_progress()
        else:
            chosen = list(self._readers)
        self._readers = {path: self._readers.get(path) or RunReader(path) for path in chosen}
        return list(self._readers.values())

    def _in_progress(self) -> list[Path]:
        """Return the runs in progress, or the newest one. A run keeps its number while others start or end after it."""
        runs = runs_of(*self._folders)
        found = going_on(runs)[:_MOST_RUNS] or runs[:1]
        return [
            *(path for path in self._readers if path in found),
            *(path for path in found if path not in self._readers),
        ]


def _silent(runs: Sequence[Run], now: float) -> dict[str, str]:
    silent = max((silence(now, run.samples) for run in runs if run.going_on), default=0.0)
    return {"monitor": f"no samples from the run for {silent:.0f} s"} if silent else {}


class MachineFeed:
    """Measures the machine on request, waiting at most half a second for the driver."""

    def __init__(self) -> None:
        self._thread = GpuThread(Gpus())
        self._gpus, self._host = GpuWatch(self._thread, KernelLog()), Host()

    def sample(self) -> Sample:
        """Take one sample, without any training values."""
        now = time.monotonic()
        self._gpus.ask(now)
        host, gpus = self._host.read(now), self._gpus.gpus(now, lambda pid: False)
        return Sample(time.time(), gpus, host, problems={"nvml": self._gpus.problem} if self._gpus.problem else {})

    def close(self) -> None:
        """Stop measuring. If a driver call never returns, its thread stays until this process exits."""
        self._thread.close()


class Present:
    """Passes new samples to the detectors, and keeps their current findings."""

    def __init__(self) -> None:
        self._detection = Detection()
        self._newest = float("-inf")
        self._told: dict[tuple[str, str, str], ShownIncident] = {}

    def take(self, samples: Sequence[Sample]) -> list[ShownIncident]:
        """Return the findings that are present after these samples. Samples that were already seen are skipped."""
        for sample in samples:
            if sample.time <= self._newest:
                continue
            self._newest = sample.time
            changes = self._detection.take(sample)
            for finding in (*changes.told, *changes.returned):
                incident = incident_of(finding, sample.time)
                self._told[incident.key] = incident
        active = set(self._detection.active)
        self._told = {key: incident for key, incident in self._told.items() if key in active}
        return list(self._told.values())
