"""Reads the runs in a folder repeatedly, but only the new part of each journal."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from oomph.journal.journal_reader import JournalReader
from oomph.monitor.sample import Sample
from oomph.monitor.store import MONITORED_PARENT, TAIL, latest, newest
from oomph.protocol.progress import read_progress
from oomph.run.directory.run_directory import RUNNING, RunRecord, read_record
from oomph.run.directory.search import changed, runs_in
from oomph.run.directory.unfinished import holder_of
from oomph.watch.job import Run, silence

KEPT = 120
"""The number of recent samples to keep for each run: two minutes."""
MONITORED, MEASURED = "monitored", "no longer monitored"
"""The states of training that is watched by `oomph.Monitor` but was not started by `oomph run`."""
_MOST_LOOKED_AT = 50


def runs_of(folder: Path) -> list[Path]:
    """Return at most 50 run directories and `oomph.Monitor` folders in a folder, newest first."""
    runs = [(changed(run) or 0.0, run) for run in runs_in(folder)]
    monitored = [(at, path) for path in _monitored_in(folder) if (at := _measured(path))]
    return [path for _, path in sorted([*runs, *monitored], reverse=True)[:_MOST_LOOKED_AT]]


def _monitored_in(folder: Path) -> list[Path]:
    try:
        return list((folder / MONITORED_PARENT).iterdir())
    except OSError:
        return []


class RunReader:
    """Reads a run directory, or the folder of an `oomph.Monitor`, which contains only samples.

    Reading never raises. Missing or damaged parts are not shown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = JournalReader(path)
        self._samples: deque[Sample] = deque(latest(path), maxlen=KEPT)

    def read(self) -> Run | None:
        """Return the current state of the run, or None if its run.json is unreadable, or it has none and no samples."""
        sample = newest(self.path)
        if sample is not None and (not self._samples or sample.time > self._samples[-1].time):
            self._samples.append(sample)
        record = read_record(self.path) or self._of_monitor()
        if record is None:
            return None
        return Run(
            path=str(self.path),
            record=record,
            going_on=is_going_on(self.path, record) or record.status == MONITORED,
            progress=read_progress(self.path),
            events=self._journal.read(),
            samples=tuple(self._samples),
        )

    def _of_monitor(self) -> RunRecord | None:
        """Return a record in place of run.json, for the folder of an `oomph.Monitor`."""
        if not self._samples or os.path.lexists(self.path / "run.json"):
            return None
        status = MEASURED if silence(time.time(), self._samples) else MONITORED
        return RunRecord((self.path.name,), "", "", "", status)


def is_going_on(path: Path, record: RunRecord) -> bool:
    """True if a run appears to be in progress. Its lock is not tried, because that could disturb the run."""
    if record.status != RUNNING:
        return False
    holder = holder_of(path)
    return holder is not None and (holder.lives or holder.elsewhere)


def is_elsewhere(path: Path) -> bool:
    """True if a run is or was on a different machine."""
    holder = holder_of(path)
    return holder is not None and holder.elsewhere


def going_on(runs: Iterable[Path]) -> list[Path]:
    """Return the runs that are still in progress."""
    return [path for path in runs if _is_monitored_or_going_on(path)]


def _is_monitored_or_going_on(path: Path) -> bool:
    record = read_record(path)
    if record is not None:
        return is_going_on(path, record)
    sample = newest(path)
    return sample is not None and not silence(time.time(), [sample])


def _measured(monitored: Path) -> float:
    """Return when the last sample was stored, as Unix time, or 0 if the folder has no samples."""
    try:
        return (monitored / TAIL).stat().st_mtime
    except OSError:
        return 0.0
