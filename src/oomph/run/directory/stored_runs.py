"""The runs that a folder holds: which have not finished, and which of them may be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from oomph.run.directory.run_directory import DEFAULT_PARENT, FINISHED, RunRecord, read_record
from oomph.run.directory.trust import why_not_above, why_not_trusted
from oomph.terminal.console import say


class StoredRun(NamedTuple):
    """A run directory and what its run.json says."""

    path: Path
    record: RunRecord


def unfinished_runs(cwd: str) -> list[StoredRun]:
    """The runs that were started in a folder and have not finished, newest first."""
    found = sorted(_unfinished(cwd), key=lambda each: each[0], reverse=True)
    return [StoredRun(path, record) for (_, path), record in found]


def first_trusted(runs: Iterable[StoredRun]) -> StoredRun | None:
    """The first run that no other user can have written. Reports why each run before it is skipped."""
    for run in runs:
        stranger = why_not_trusted(run.path)
        if stranger is None:
            return run
        say(f"{run.path} cannot be resumed: {stranger}")
    return None


def _unfinished(cwd: str) -> Iterator[tuple[tuple[float, Path], RunRecord]]:
    parent = Path(cwd) / DEFAULT_PARENT
    for path in _folders_in(parent):
        record = read_record(path)
        if record is not None and record.cwd == cwd and record.status != FINISHED:
            yield (_changed(path / "run.json"), path), record


def _folders_in(parent: Path) -> list[Path]:
    """The folders in `parent`; empty, with a warning, if it is another user's or unreadable."""
    try:
        found = list(parent.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        say(f"no run in {parent} is resumed: {error.strerror}")
        return []
    stranger = why_not_above(parent / "run")
    if stranger is not None and found:
        say(f"no run is resumed: {stranger}")
        return []
    return found


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
