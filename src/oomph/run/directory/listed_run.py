"""Describes a run in a list of runs: how it stands, how far it came, what its result is worth, what it occupies."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from oomph.monitor.store import newest
from oomph.protocol.progress import read_progress
from oomph.run.directory.run_directory import (
    FINISHED,
    RUNNING,
    RunRecord,
    read_record,
    read_summary,
    written_by_another,
)
from oomph.run.directory.search import changed, measured
from oomph.run.directory.unfinished import holder_of, is_saved, unfinished
from oomph.run.report.labels import MEANING

GOING_ON, MEASURED = "going-on", "measured"
"""The states of a run in progress, and of the samples that an `oomph.Monitor` has left."""
_SILENT_SECONDS = 30.0
"""The time without a sample after which an `oomph.Monitor` is over: there is one a second."""
BLOCK_BYTES = 512
"""The unit of `st_blocks` on every system, whatever the file system's own."""
_MOST_STEPS = 1 << 63


class ListedRun(NamedTuple):
    """A run directory as seen from outside, where a process may still be writing to it."""

    path: Path
    record: RunRecord | None
    """The contents of run.json, or None if it cannot be read."""
    changed: float
    """The Unix time at which the run last changed."""
    state: str | None = None
    """The state as in `oomph explain RUN --json` or, for a run that has ended, its status. Without a record, None, or
    that of an `oomph.Monitor`."""
    problem: str = ""
    """The reason why there is no record."""
    steps: int | None = None
    """The number of steps trained, or None if unknown."""
    label: str | None = None
    """The label of the result (`exactness`), or None if the run has no result yet."""
    is_resumable: bool = False
    """True if the run has not ended for good, or has failed and has a checkpoint to resume from."""
    is_monitored: bool = False
    """True for the samples of an `oomph.Monitor` outside of a run."""


def described(path: Path) -> ListedRun:
    """Look at a run. Never raises: the folder may be damaged, planted, or about to vanish."""
    record, at = read_record(path), changed(path) or 0.0
    if record is None and (sampled := measured(path)) is not None:
        return _monitored(path, sampled)
    if record is None:
        foreign = bool(written_by_another(path))
        return ListedRun(path, None, at, problem="written by another version" if foreign else "run.json is damaged")
    left = unfinished(path)
    state = record.status if left is None else left.name
    if record.status == RUNNING and state != GOING_ON and _is_elsewhere(path):
        state = GOING_ON  # as far as anybody here can tell
    summary = read_summary(path) if left is None else {}
    return ListedRun(
        path,
        record,
        at,
        state,
        steps=_steps(path, summary.get("steps")),
        label=next((label for label in MEANING if label == summary.get("exactness")), None),
        is_resumable=left is not None or (record.status != FINISHED and is_saved(path)),
    )


def _monitored(path: Path, at: float) -> ListedRun:
    sample = newest(path)
    counted = None if sample is None else sample.training.get("steps_total")
    steps = int(counted) if counted is not None and 0 <= counted < _MOST_STEPS else None
    state = GOING_ON if time.time() - at < _SILENT_SECONDS else MEASURED
    return ListedRun(path, None, at, state, steps=steps, is_monitored=True)


def _is_elsewhere(path: Path) -> bool:
    holder = holder_of(path)
    return holder is not None and holder.elsewhere


def _steps(path: Path, counted: object) -> int | None:
    """Return the number of steps in the summary or, while there is none, on the board."""
    if isinstance(counted, int) and not isinstance(counted, bool) and 0 <= counted < _MOST_STEPS:
        return counted
    progress = read_progress(path)
    return None if progress is None else progress.steps


def disk_bytes(path: Path) -> int:
    """Return what a folder or a file occupies on the disk, without following links in it."""
    total, waiting, seen = 0, [os.path.realpath(path)], set()
    while waiting:
        place = waiting.pop()
        try:
            found = os.lstat(place)
            identity = (found.st_dev, found.st_ino)
            if identity not in seen:  # a file with several names occupies its place once
                seen.add(identity)
                total += found.st_blocks * BLOCK_BYTES
            if stat.S_ISDIR(found.st_mode):
                waiting += [os.path.join(place, name) for name in os.listdir(place)]
        except OSError:
            pass  # it has just been removed, or cannot be entered
    return total
