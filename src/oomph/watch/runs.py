"""Reads the runs of a folder repeatedly, but only the new part of each journal."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from oomph.files.opening import open_own
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.sample import Sample
from oomph.monitor.store import MONITORED_PARENT, TAIL, latest, newest
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol.progress import read_progress
from oomph.run.directory.run_directory import DEFAULT_PARENT, RUNNING, RunRecord, read_record
from oomph.watch.job import Run, silence

KEPT = 120
"""The number of newest samples of a run to keep: two minutes."""
MONITORED, MEASURED = "monitored", "no longer monitored"
"""The states of a training with `oomph.Monitor` that oomph does not run."""
_MOST_LOOKED_AT = 50
_HOLDER_BYTES = 512


def runs_of(folder: Path) -> list[Path]:
    """Return the run directories and the folders of `oomph.Monitor` in a folder, newest first; at most 50."""
    files = [*_in_each(folder / DEFAULT_PARENT, "run.json"), *_in_each(folder / MONITORED_PARENT, TAIL)]
    newest_first = sorted(((_changed(file), run) for file, run in files), reverse=True)
    return [run for at, run in islice(newest_first, _MOST_LOOKED_AT) if at]


def _in_each(parent: Path, name: str) -> list[tuple[Path, Path]]:
    """Return (file, folder) for each folder in `parent`."""
    try:
        return [(entry / name, entry) for entry in parent.iterdir()]
    except OSError:
        return []


class RunReader:
    """One run directory, or the folder of an `oomph.Monitor`, which has only samples.

    Reading never raises: missing or damaged parts are not shown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = JournalReader(path)
        self._samples: deque[Sample] = deque(latest(path), maxlen=KEPT)

    def read(self) -> Run | None:
        """Return the run as it is now; None if it has neither a readable run.json nor samples."""
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
        """Return the record that replaces run.json in the folder of an `oomph.Monitor`."""
        if not self._samples:
            return None
        status = MEASURED if silence(time.time(), self._samples) else MONITORED
        return RunRecord((self.path.name,), "", "", "", status)


def is_going_on(path: Path, record: RunRecord) -> bool:
    """True if a run seems to be going on. Its lock is not tried, because that could disturb the run."""
    if record.status != RUNNING:
        return False
    holder = _holder(path)
    return holder is not None and (holder.lives or holder.elsewhere)


def is_elsewhere(path: Path) -> bool:
    """True if a run is on another machine, or was."""
    holder = _holder(path)
    return holder is not None and holder.elsewhere


def going_on(runs: Iterable[Path]) -> list[Path]:
    """Return the runs that are still going on."""
    return [path for path in runs if _is_monitored_or_going_on(path)]


def _is_monitored_or_going_on(path: Path) -> bool:
    record = read_record(path)
    if record is not None:
        return is_going_on(path, record)
    sample = newest(path)
    return sample is not None and not silence(time.time(), [sample])


def _holder(path: Path) -> ProcessIdentity | None:
    try:
        fd = open_own(path, "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        return ProcessIdentity.from_text(os.pread(fd, _HOLDER_BYTES, 0).decode(errors="replace"))
    finally:
        os.close(fd)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
