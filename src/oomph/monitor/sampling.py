"""Sampling: makes one sample of everything, keeps it, and returns what it changes in what is found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from oomph.monitor.board import BoardReader
from oomph.monitor.changes import Changes
from oomph.monitor.detection import Detection
from oomph.monitor.gpu_watch import GpuWatch
from oomph.monitor.host import Host
from oomph.monitor.process_tree import ProcessTree
from oomph.monitor.sample import Sample


class Keeper(Protocol):
    """Where samples are kept: `oomph.monitor.store.Store`."""

    problem: str

    def append(self, sample: Sample, /) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class Sampling:
    """All sources of samples, where they are kept, and who looks at them."""

    gpus: GpuWatch
    host: Host
    processes: ProcessTree
    board: BoardReader
    store: Keeper
    detection: Detection = field(default_factory=Detection)

    def take(self, now: float, unix_time: float | None = None) -> Changes:
        """Take one sample; `now` is a monotonic time in seconds."""
        self.gpus.ask(now)  # answered by a thread while the rest is read
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
        )
        self.store.append(sample)
        changes = self.detection.take(sample)
        if changes.told:
            self.store.sync()  # the machine may not live for long
        return changes
