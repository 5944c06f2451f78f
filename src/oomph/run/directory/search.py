"""Finds run directories: the one place that knows where the runs in a folder lie."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from oomph.files.oomph_folder import DEMO, MONITOR, NOTEBOOKS, OOMPH, RUNS

_JOURNAL_FILE = re.compile(r"[0-9]{1,9}-[0-9]{1,9}-[a-z]{1,30}\.jsonl")
_DEEPEST = 3
"""The most folders between the one searched and a run of `--run-dir`, including the run's own."""
_MOST_ENTRIES = 10_000
"""The most entries to look at. A folder of data may contain millions of files, and the nearest folders come first."""


def runs_in(*folders: Path) -> list[Path]:
    """Return the run directories in the folders, newest first.

    These are the runs in the `.oomph` of a folder, of scripts, notebooks and `oomph demo`, and those in the folders
    below it: in a `.oomph` of their own, or where `--run-dir` put them. No link is followed, except for the folders
    themselves.
    """
    found = (run for each in folders for run in (*own_runs(each), *_runs_of_demos(each), *_runs_below(each)))
    return newest_first({run.absolute(): run for run in found}.values())


def own_runs(folder: Path) -> list[Path]:
    """Return the runs in the `.oomph` of a folder, which may itself be a `.oomph` or a part of one, newest first."""
    return newest_first(run for place in _own_places(folder, (RUNS, NOTEBOOKS)) for run in _folders_in(place))


def monitored_in(folder: Path) -> list[Path]:
    """Return the folders of `oomph.Monitor` in the `.oomph` of a folder, newest first. They hold nothing but samples.

    The folder may itself be a `.oomph` or a part of one.
    """
    found = [
        (at, path)
        for place in _own_places(folder, (MONITOR,))
        for path in _folders_in(place)
        if (at := measured(path)) is not None
    ]
    return [path for _, path in sorted(found, reverse=True)]


def runs_and_monitored(*folders: Path) -> list[Path]:
    """Return what `runs_in` and `monitored_in` find in the folders, newest first."""
    each = {*runs_in(*folders), *(path for folder in folders for path in monitored_in(folder))}
    return sorted(each, key=lambda path: (changed(path) or measured(path) or 0.0, path), reverse=True)


def is_own_place(run: Path) -> bool:
    """True if a path is one where oomph itself puts runs and samples: below `.oomph`."""
    place = run.absolute().parent
    return place.name in (RUNS, NOTEBOOKS, MONITOR) and place.parent.name == OOMPH


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Return those of the paths that are run directories, the last to change first."""
    found = [(at, path) for path in paths if (at := changed(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def changed(run: Path) -> float | None:
    """Return when a run last changed, as Unix time, even if run.json is missing; None if the folder is not a run.

    Other programs have folders called "journal", too: without a run.json, there must be a file of ours in it.
    """
    return _written(run / "run.json", stat.S_IFREG) or _journal_written(run)


def measured(folder: Path) -> float | None:
    """Return when `oomph.Monitor` last stored a sample in a folder, as Unix time; None if it is not one of its own."""
    from oomph.monitor.store import TAIL  # late: `oomph run` need not wait for it

    return None if changed(folder) is not None else _written(folder / TAIL, stat.S_IFREG)


def _journal_written(run: Path) -> float | None:
    at = _written(run / "journal", stat.S_IFDIR)
    if at is None or is_own_place(run):
        return at
    names = (entry.name for entry in _entries(run / "journal", _MOST_ENTRIES))
    return at if any(map(_JOURNAL_FILE.fullmatch, names)) else None


def _written(path: Path, kind: int) -> float | None:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_mtime if stat.S_IFMT(found.st_mode) == kind else None


def _own_places(folder: Path, kinds: Collection[str]) -> list[Path]:
    """Return those folders in the `.oomph` of a working directory; the folder itself if it is one of them."""
    there = folder.absolute()
    if there.parent.name == OOMPH:
        return [folder] if there.name in kinds else []
    if there.name != OOMPH:
        folder /= OOMPH
        if not _is_folder(folder):
            return []
    return [place for kind in kinds if _is_folder(place := folder / kind)]


def _is_folder(path: Path) -> bool:
    """True for a folder, but not for a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _runs_of_demos(folder: Path) -> Iterator[Path]:
    """Yield the folders in those of demonstrations, some of which are run directories."""
    for place in _own_places(folder, (DEMO,)):
        for demo in _folders_in(place):
            yield from newest_first(_folders_in(demo))


def _runs_below(folder: Path) -> Iterator[Path]:
    """Yield the runs below a folder, level by level, without looking into them."""
    waiting, left = deque([(folder, 1)]), _MOST_ENTRIES
    while waiting and left > 0:
        place, depth = waiting.popleft()
        entries = _entries(place, left)
        left -= len(entries)
        for path in _folders_among(entries):
            if path.name == OOMPH:
                yield from own_runs(path)
            elif changed(path) is not None:
                yield path
            elif depth < _DEEPEST and not path.name.startswith("."):
                waiting.append((path, depth + 1))


def _folders_in(folder: Path) -> list[Path]:
    return _folders_among(_entries(folder))


def _folders_among(entries: Iterable[os.DirEntry[str]]) -> list[Path]:
    return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _entries(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    """Return the first entries of a folder, or none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, most))
    except OSError:
        return []
