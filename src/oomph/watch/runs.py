"""Reads the runs in a folder repeatedly, but only the new part of each journal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from oomph.journal.journal import Event
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.sample import Sample
from oomph.monitor.store import RecentSamples, newest
from oomph.protocol.progress import read_progress
from oomph.run.directory.run_directory import RUNNING, RunRecord, read_record
from oomph.run.directory.search import runs_and_monitored
from oomph.run.directory.unfinished import holder_of
from oomph.watch.history import SPAN_SECONDS
from oomph.watch.job import Highlights, Run, highlights_of, silence
from oomph.watch.worker_reader import WorkerReader

KEPT = SPAN_SECONDS + 10
"""The number of recent samples to keep for each run: those on the charts, and those before that their rates need."""
MONITORED, MEASURED = "monitored", "no longer monitored"
"""The states of training that is watched by `oomph.Monitor` but was not started by `oomph run`."""
_MOST_LOOKED_AT = 50


def runs_of(*folders: Path) -> list[Path]:
    """Return at most 50 run directories and `oomph.Monitor` folders in the folders, newest first."""
    return runs_and_monitored(*folders)[:_MOST_LOOKED_AT]


class RunReader:
    """Reads a run directory, or the folder of an `oomph.Monitor`, which contains only samples.

    Reading never raises. Missing or damaged parts are not shown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = JournalReader(path, newest=True)
        self._recent = RecentSamples(path, KEPT)
        self._workers = WorkerReader(path)
        self._read: tuple[Sequence[Event], bool] | None = None
        self._highlights = Highlights()

    def read(self) -> Run | None:
        """Return the current state of the run, or None if its run.json is unreadable, or it has none and no samples."""
        samples = self._recent.read()
        record = read_record(self.path) or self._of_monitor(samples)
        if record is None:
            return None
        going_on = is_going_on(self.path, record) or record.status == MONITORED
        highlights, traces = self._highlights_now(going_on), self._workers.read(going_on)
        return Run(
            str(self.path),
            record,
            going_on,
            read_progress(self.path),
            highlights,
            samples,
            traces,
            self._workers.straggler(),
        )

    def _highlights_now(self, going_on: bool) -> Highlights:
        """Return the highlights, which are read again only if the journal or the state of the run has changed."""
        read = self._journal.read(), going_on
        if self._read is None or read[0] is not self._read[0] or going_on != self._read[1]:
            self._read, self._highlights = read, highlights_of(*read, str(self.path))
        return self._highlights

    def _of_monitor(self, samples: Sequence[Sample]) -> RunRecord | None:
        """Return a record in place of run.json, for the folder of an `oomph.Monitor`."""
        if not samples or os.path.lexists(self.path / "run.json"):
            return None
        status = MEASURED if silence(time.time(), samples) else MONITORED
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
