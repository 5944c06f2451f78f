"""Finds run directories: the one place that knows where the runs in a folder lie."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from oomph.files.oomph_folder import NOTEBOOKS, OOMPH, RUNS

_DEEPEST = 3
"""The most folders between the one searched and a run of `--run-dir`, including the run's own."""
_MOST_ENTRIES = 10_000
"""The most entries to look at. A folder of data may contain millions of files, and the nearest folders come first."""


def runs_in(folder: Path) -> list[Path]:
    """Return the run directories in a folder, newest first.

    These are the runs in its `.oomph`, of scripts and of notebooks, and those in the folders below it: in a `.oomph` of
    their own, or where `--run-dir` put them. No link is followed, except for the folder itself.
    """
    return newest_first({*own_runs(folder), *_runs_below(folder)})


def own_runs(folder: Path) -> list[Path]:
    """Return the runs in the `.oomph` of a folder, which may itself be a `.oomph` or a part of one, newest first."""
    return newest_first(run for place in _own_places(folder) for run in _folders_in(place))


def is_own_place(run: Path) -> bool:
    """True if a path is one where oomph itself puts runs: below `.oomph`."""
    place = run.absolute().parent
    return place.name in (RUNS, NOTEBOOKS) and place.parent.name == OOMPH


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Return those of the paths that are run directories, the last to change first."""
    found = [(at, path) for path in paths if (at := changed(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def changed(run: Path) -> float | None:
    """Return when a run last changed, as Unix time, even if run.json is missing; None if the folder is not a run."""
    for name, kind in (("run.json", stat.S_IFREG), ("journal", stat.S_IFDIR)):
        try:
            found = (run / name).lstat()
        except (OSError, ValueError):
            continue
        if stat.S_IFMT(found.st_mode) == kind:
            return found.st_mtime
    return None


def _own_places(folder: Path) -> list[Path]:
    """Return the folders with the runs of a working directory or of a `.oomph`; the folder itself if it is one."""
    there = folder.absolute()
    if there.parent.name == OOMPH:
        return [folder]
    if there.name != OOMPH:
        folder /= OOMPH
        if not _is_folder(folder):
            return []
    return [place for kind in (RUNS, NOTEBOOKS) if _is_folder(place := folder / kind)]


def _is_folder(path: Path) -> bool:
    """True for a folder, but not for a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


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
