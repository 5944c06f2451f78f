"""Keeps notes in the run directory on what a script created, so that a restart can tell it from older files.

There is one file per attempt, `created-<attempt>.jsonl`. One line is written before something is created, because
nothing can be written after `kill -9`, and a second line, with the inode, once it exists. The script process writes the
notes and reads those of earlier attempts. `oomph rehearse` reads them too. Standard library only.

Notes may come from anyone. A file therefore counts as created only if its birth time lies within the period when the
notes were written, according to the kernel's clock, which nobody can turn back. On a file system without birth times,
no file counts.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oomph.files.birth import born_at
from oomph.files.conforming import conforms
from oomph.files.opening import MOST_READ, OwnFile, open_folder, read_regular, set_aside

SCHEMA = 1
_NUMBER = re.compile("[0-9]{1,9}")
_OF_ATTEMPT = re.compile(r"created-([0-9]{1,9})\.jsonl")
DIRECTORY, FILE, LINK = "directory", "file", "link"
_FIELDS: Mapping[str, Any] = {
    "schema": int,
    "id": str,
    "kind": str,
    "path": str,
    "place": str,
    "number": int,
    "inode": int | None,
}
_MOST_NOTES = 10_000
"""The maximum number of notes per attempt, so that creating a million files stays cheap."""


_MOST_OF_NOTE = 1 << 16
"""The maximum length of a note, in bytes: two long paths. Longer lines are ignored, since parsing a line takes thirty
times its size."""
_MOST_INODES = 16
"""The maximum number of inodes kept per path. Many processes or attempts may put a file there; the newest count."""

_TICK_NS = 1_000_000_000
"""The resolution of the coarsest file system clock, in nanoseconds: one second."""


class Creation(NamedTuple):
    """Something that was created. It compares equal in every attempt that creates the same thing."""

    kind: str
    path: str
    """The absolute, normalised path."""
    place: str
    """The line in the script that created it, as in `ScriptLine.place`."""
    number: int
    """The number of times that line has created this path, counted from 1."""


class _Time(NamedTuple):
    """The times at which a notes file was created and last written or changed, in nanoseconds."""

    born: int
    last: int


class Notes:
    """Writes one attempt's notes. Notes that cannot be written are dropped."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._file = OwnFile(run_dir, f"created-{attempt}.jsonl")
        self._pid, self._numbers = os.getpid(), itertools.count(1)

    def begin(self) -> None:
        """Create the notes file early: files that the script later renames into place must be younger than it."""
        self._append(b"")

    def about_to(self, creation: Creation) -> str:
        """Note that something is about to be created. Returns the ID to pass to `ended`, or "" if it was not noted."""
        number = next(self._numbers)
        if number > _MOST_NOTES:
            return ""
        name = f"{self._pid}-{number}"
        self._write({"id": name, **creation._asdict()})
        return name

    def ended(self, name: str, inode: int | None) -> None:
        """Note that the creation has finished. An `inode` of None means that it failed."""
        self._write({"id": name, "inode": inode})

    def renamed(self, path: str, inode: int) -> None:
        """Note that another file has taken the name of one that the script created."""
        if next(self._numbers) <= _MOST_NOTES:
            self._write({"path": path, "inode": inode})

    def _write(self, document: dict[str, Any]) -> None:
        self._append(json.dumps({"schema": SCHEMA, **document}, separators=(",", ":")).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        """Append a line. Opens the file each time, since a script may close every descriptor and reuse its number."""
        try:
            fd = self._file.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError:
            return
        try:
            os.write(fd, line)
        except OSError:
            pass  # a full disk must not end the run
        finally:
            os.close(fd)


class Earlier:
    """The paths that earlier attempts created."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        """The paths that were created."""
        self._known: set[Creation] = set()
        self._inodes: dict[str, tuple[tuple[int, _Time | None], ...]] = {}
        """The inodes that the script put at each path, each with the time of its note, or None if by this process."""
        self._unsure: dict[str, _Time] = {}
        """The paths that were about to be created when the process was killed."""

    @classmethod
    def read(cls, run_dir: Path, before: int | None = None, others: Iterable[str] = ()) -> Earlier:
        """Read the notes of the attempts before `before` (None for all), and all notes in other run directories."""
        earlier = cls()
        for path in (*_files(run_dir, before), *(path for other in others for path in _files(Path(other)))):
            earlier._add(path)
        earlier.paths.update(creation.path for creation in earlier._known)
        return earlier

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of things that were created."""
        return frozenset(creation.kind for creation in self._known)

    def has(self, creation: Creation) -> bool:
        """True if an earlier attempt made the same creation: same path, same line, same count."""
        return creation in self._known

    def is_still(self, path: str, inode: int) -> bool:
        """True if the path still holds what the script put there, rather than something older or newer."""
        noted = [time for known, time in self._inodes.get(path, ()) if known == inode]
        if None in noted:
            return True
        born, unsure = born_at(path), self._unsure.get(path)
        if born is None:
            return False
        if unsure is not None and abs(born - unsure.last) <= _TICK_NS:
            return True  # right after the last note
        return any(t is not None and t.born - _TICK_NS <= born <= t.last + _TICK_NS for t in noted)

    def renamed(self, path: str, inode: int) -> None:
        """Accept another file that the script has put under the name of one that it created."""
        self._keep(path, inode, None)

    def _keep(self, path: str, inode: int, time: _Time | None) -> None:
        """Record a path's inode, and keep only the newest few, since forged notes could list every possible inode."""
        kept = [each for each in self._inodes.get(path, ()) if each[0] != inode]
        self._inodes[path] = (*kept[1 - _MOST_INODES :], (inode, time))

    def _add(self, path: Path) -> None:
        begun: dict[str, Creation] = {}
        time = _time_of(path)
        for line in _lines(path):
            try:
                self._add_line(json.loads(line), begun, time)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # a line cut short by a kill, or in a different format
        self._known.update(begun.values())
        self._unsure.update((creation.path, time) for creation in begun.values())

    def _add_line(self, document: dict[str, Any], begun: dict[str, Creation], time: _Time) -> None:
        if document["schema"] != SCHEMA or not all(conforms(document[name], _FIELDS[name]) for name in document):
            return
        if "kind" in document:
            begun[document["id"]] = Creation(**{name: document[name] for name in Creation._fields})
            return
        inode = document["inode"]
        created = begun.pop(document["id"]) if "id" in document else None
        if inode is not None:
            self._keep(created.path if created else document["path"], inode, time)
            self._known.update(() if created is None else (created,))


def _files(folder: Path, before: int | None = None) -> list[Path]:
    """Return the files with the notes of the attempts before `before`, or of all attempts if it is None."""
    numbered = [(path.stem.rpartition("-")[2], path) for path in sorted(folder.glob("created-*.jsonl"))]
    return [path for number, path in numbered if _NUMBER.fullmatch(number) and (before is None or int(number) < before)]


def refuse_later(run_dir: Path, attempt: int) -> None:
    """Rename files that claim to be the notes of this attempt or a later one."""
    try:
        folder = open_folder(run_dir)
    except OSError:
        return
    try:
        for name in os.listdir(folder):
            found = _OF_ATTEMPT.fullmatch(name)
            if found is not None and int(found[1]) >= attempt:
                set_aside(folder, name)
    finally:
        os.close(folder)


def _time_of(path: Path) -> _Time:
    """Return the times of a notes file, or _NEVER if they are unknown."""
    born = born_at(path)
    try:
        return _NEVER if born is None else _Time(born, path.stat().st_ctime_ns)
    except OSError:
        return _NEVER


_NEVER = _Time(0, -1 << 62)


def _lines(path: Path) -> list[bytes]:
    try:
        return [line for line in read_regular(path, MOST_READ).splitlines() if len(line) <= _MOST_OF_NOTE]
    except OSError:
        return []
