"""Records and restores the files that a fit writes, which are part of its result, just like its weights.

When the fit ends, their contents are recorded, and copied if small. A finished fit is not skipped if one of its files
is missing or has changed. Within a fit, the contents are recorded at each checkpoint, since callbacks may read the
files back. A file is restored only if a callback in this process names it, or when the script opens it: a checkpoint is
just data, and must not choose which files are written.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oomph.checkpoint.container import Checkpoint
from oomph.files.opening import read_regular
from oomph.objects.instances import dict_of
from oomph.protocol.reasons import Reason, because
from oomph.resume.state.training_state import Array, read_arrays
from oomph.resume.training.call_place import CLOCK
from oomph.script.opened_files import FileState, Origin, origin_of, replace_file, stamp_of
from oomph.script.restorable import may_be_restored

_MOST_COPIED = 64 << 20
_MOST_COPIED_WITHIN, _MOST_OF_ONE = 4 << 20, 1 << 20
"""The most bytes of files to copy within a fit: per checkpoint, and per file."""
_SETTLED_NS = 50_000_000
"""The nanoseconds after which a change is sure to get a new modification time, as file systems count milliseconds."""
_MOST_READ = 1 << 30
_PLACEHOLDER = re.compile(r"\\\{.*?\\\}")
_GLOB = re.compile(r"\{.*?\}")
_NAMED = re.compile(r"[^\W_]")
"""Matches a letter or digit outside the placeholders; a name made up of placeholders alone would match every file."""
_APPENDED = ("TensorBoard",)
"""The callback classes whose files are logs that the script does not read back."""


def noted(callbacks: list[Any], opened: Iterable[str], since: float) -> tuple[list[dict[str, Any]], list[Array]]:
    """Return the files written after `since` that callbacks name or that were opened, and copies of the small ones."""
    found: list[dict[str, Any]] = []
    copies: list[Array] = []
    room = _MOST_COPIED
    named = _named_by(callbacks)
    there = {os.path.abspath(path) for path in named}
    for path in [*named, *(Path(each) for each in opened if each not in there)]:
        entry = _entry(path)
        if entry is None or path.stat().st_mtime < since - 1:
            continue
        if entry["size"] <= room:
            room -= entry["size"]
            entry["copy"] = len(copies)
            copies.append(Array(f"file/{len(copies)}", "uint8", np.frombuffer(path.read_bytes(), np.uint8)))
        found.append(entry)
    return found, copies


class Kept:
    """Reads a fit's files at its checkpoints, except for files that have not changed since the previous checkpoint."""

    def __init__(self) -> None:
        self._read: dict[str, FileState] = {}

    def states(self, callbacks: list[Any], opened: Iterable[str]) -> list[FileState]:
        """Return the current state of the files that callbacks name and of the files opened for writing."""
        paths = dict.fromkeys([*map(os.path.abspath, map(str, _named_by(callbacks))), *opened])
        found, room = [], _MOST_COPIED_WITHIN
        for path in paths:
            state = self._state(path, min(room, _MOST_OF_ONE))
            if state is not None:
                room -= len(state.content or b"")
                found.append(state)
        self._read = {state.path: state for state in found}
        return found

    def _state(self, path: str, most: int) -> FileState | None:
        stamp, known = stamp_of(path), self._read.get(path)
        if stamp is None:
            return None
        settled = time.time_ns() - stamp[1] > _SETTLED_NS
        if settled and known is not None and known.stamp == stamp and len(known.content or b"") <= most:
            return known
        try:
            content = Path(path).read_bytes() if stamp[0] <= most else None
            return FileState(path, stamp, content, origin_of(path))
        except OSError:
            return None


def as_meta(states: list[FileState]) -> list[dict[str, Any]]:
    """Convert file states to the JSON part of a checkpoint; `as_arrays` converts the rest."""
    return [
        {"path": s.path, "stamp": list(s.stamp), "copied": s.content is not None, "origin": list(s.origin or ())}
        for s in states
    ]


def as_arrays(states: list[FileState]) -> list[Array]:
    """Convert the copied contents to arrays, each named after the number of its file."""
    return [
        Array(f"file/{number}", "uint8", np.frombuffer(state.content, np.uint8))
        for number, state in enumerate(states)
        if state.content is not None
    ]


def states_in(checkpoint: Checkpoint) -> dict[str, FileState]:
    """Read the files in a checkpoint, by path. Raises ValueError if its manifest is malformed."""
    return from_meta(checkpoint.meta.opened, read_arrays(checkpoint, "file/"), _written_at(checkpoint))


def from_meta(document: Any, arrays: Mapping[str, Any], since_ns: int = 0) -> dict[str, FileState]:
    """Read the files in a checkpoint's metadata, by path. Raises ValueError if the metadata is malformed.

    Args:
        since_ns: the time at which the checkpoint was written, in nanoseconds since 1970.
    """
    try:
        return {
            str(each["path"]): FileState(
                str(each["path"]),
                (int(each["stamp"][0]), int(each["stamp"][1])),
                arrays[str(number)].tobytes() if each["copied"] else None,
                _origin_in(each),
                since_ns,
            )
            for number, each in enumerate(document)
        }
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not the state of any files: {error}") from error


def _origin_in(entry: Mapping[str, Any]) -> Origin | None:
    match entry.get("origin"):
        case [int() as file, int() as folder]:
            return file, folder
    return None


def _written_at(checkpoint: Checkpoint) -> int:
    try:
        return os.stat(checkpoint.path / "manifest.json").st_ctime_ns
    except OSError:
        return time.time_ns()


def changed_since(checkpoint: Checkpoint, named: Sequence[str] = ()) -> list[Reason]:
    """Return the reasons why a checkpoint's files that have changed cannot be restored.

    If a file was replaced by one that is older than the checkpoint, the older one stays: a callback may only read it.

    Args:
        named: the `patterns` of the callbacks, which may have renamed a file.
    """
    entries, written_at = {entry["path"]: entry for entry in _entries(checkpoint)}, _written_at(checkpoint)
    gone = [entry for entry in entries.values() if not _is_as_it_was(entry)]
    renamed = new_names(entries, named)
    copies = read_arrays(checkpoint, "file/") if gone or renamed else {}
    changed = [
        because("file-changed", path=entry["path"], how="a different one" if os.path.exists(entry["path"]) else "gone")
        for entry in gone
        if not _comes_back(entry, copies, written_at)
    ]
    for new, old in renamed.items():
        content = _content_for(new, entries[old[0]], copies) if len(old) == 1 else None
        if content is None or not may_be_restored(new):
            changed.append(because("file-changed", path=old[0], how=f"now expected as {new}"))
    return changed


def _comes_back(entry: Mapping[str, Any], copies: Mapping[str, Any], written_at: int) -> bool:
    """True if the checkpoint contains a copy of the file, and the file may be restored now."""
    copy = copies.get(str(entry["copy"])) if isinstance(entry.get("copy"), int) else None
    if copy is None or not _state(entry, None, written_at).lies_where_it_lay():
        return False
    return may_be_restored(os.path.abspath(entry["path"]))


def put_back(checkpoint: Checkpoint, named: Sequence[str]) -> dict[str, FileState]:
    """Restore each changed file that a callback in this process names, unless an older file now has its name.

    Returns the other files, which are restored when the script opens them.

    Args:
        named: the `patterns` of the callbacks before anything was restored: a checkpoint must not add to them.
    """
    others, copies = {}, read_arrays(checkpoint, "file/")
    _give_new_names(checkpoint, copies, named)
    for entry in _entries(checkpoint):
        path = os.path.abspath(entry["path"])
        if not isinstance(entry.get("copy"), int):
            continue
        content = copies[str(entry["copy"])].tobytes()
        state = _state(entry, content, _written_at(checkpoint))
        is_its_own = state.lies_where_it_lay() and may_be_restored(path)
        if not (is_its_own and _is_named(entry["path"], named)):
            others[path] = state
        elif not _is_as_it_was(entry):
            replace_file(Path(path), content)
    return others


def _give_new_names(checkpoint: Checkpoint, copies: Mapping[str, Any], named: Sequence[str]) -> None:
    """Write the files that have new names in this process's callbacks, for example because a name contains the time."""
    entries = {entry["path"]: entry for entry in _entries(checkpoint)}
    for new, old in new_names(entries, named).items():
        content = _content_for(new, entries[old[0]], copies) if len(old) == 1 else None
        if content is not None and may_be_restored(new):
            replace_file(Path(new), content)


def _content_for(new: str, entry: Mapping[str, Any], copies: Mapping[str, Any]) -> bytes | None:
    """Return what to write under a file's new name, or None if that is not allowed."""
    if not _may_be_copied(entry, new):
        return None
    if isinstance(entry.get("copy"), int):
        return bytes(copies[str(entry["copy"])].tobytes())
    return Path(entry["path"]).read_bytes()


def _may_be_copied(entry: Mapping[str, Any], new: str) -> bool:
    """True if the name is free, and the checkpoint has a copy or the digest shows that the file is unchanged.

    This keeps a checkpoint from making oomph copy data that its author has never seen, or replace another file.
    """
    if os.path.lexists(new) and not _is_as_it_was({**entry, "path": new}):
        return False
    if isinstance(entry.get("copy"), int):
        return may_be_restored(new)
    is_read = isinstance(entry.get("size"), int) and entry["size"] <= _MOST_READ
    return is_read and may_be_restored(new) and _is_as_it_was(dict(entry))


def _state(entry: Mapping[str, Any], content: bytes | None, written_at: int) -> FileState:
    path = os.path.abspath(entry["path"])
    return FileState(path, (len(content or b""), 0), content, _origin_in(entry), written_at)


def _entries(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    for entry in checkpoint.meta.files:
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            yield entry


def _entry(path: Path) -> dict[str, Any] | None:
    try:
        size = path.stat().st_size
        if not path.is_file():
            return None
        origin = list(origin_of(str(path)) or ())
        return {"path": str(path), "size": size, "digest": _digest(path, size), "origin": origin}
    except OSError:
        return None


def _is_as_it_was(entry: dict[str, Any]) -> bool:
    now = _entry(Path(entry["path"]))
    return now is not None and (now["size"], now["digest"]) == (entry.get("size"), entry.get("digest"))


def _digest(path: Path, size: int) -> str:
    if size > _MOST_READ:
        return f"written {path.stat().st_mtime_ns}"
    return hashlib.sha256(read_regular(path, size)).hexdigest()


def _is_named(path: str, named: Sequence[str]) -> bool:
    """True if the file has one of these names, or matches one of them as a pattern."""
    return any(re.fullmatch(_PLACEHOLDER.sub(r"[^/]*", re.escape(pattern)), path) for pattern in named)


def _named_by(callbacks: list[Any]) -> list[Path]:
    """Find the existing files that the callbacks name."""
    found: dict[str, None] = {}
    for pattern in patterns(callbacks):
        names = glob.glob(_GLOB.sub("*", glob.escape(pattern).replace("[{]", "{"))) if "{" in pattern else [pattern]
        found |= dict.fromkeys(name for name in sorted(names) if os.path.isfile(name))
    return [Path(name) for name in found]


def patterns(callbacks: list[Any]) -> Iterator[str]:
    """Yield the strings in callbacks that may be file names or patterns of file names."""
    for callback in callbacks:
        if any(base.__name__ in _APPENDED for base in type(callback).__mro__):
            continue
        for value in dict_of(callback).values():
            text = str(os.fspath(value)) if issubclass(type(value), (str, os.PathLike)) else ""
            if len(text) < 4096 and _NAMED.search(_GLOB.sub("", text)):
                yield text


# -- renamed files ----------------------------------------------------------------------------------------------------

_VARIES = re.compile(rf"(?P<clock>{CLOCK.pattern})|(?P<field>\{{.*?\}})")


def new_names(paths: Iterable[str], named: Sequence[str]) -> dict[str, list[str]]:
    """Return the earlier names of each renamed file, keyed by its current name.

    Args:
        paths: the names of the files in the original fit.
        named: the names in this process's callbacks, including patterns with fields in braces.
    """
    paths = list(paths)
    found: dict[str, list[str]] = {}
    for pattern in dict.fromkeys(map(os.path.abspath, named)):
        earlier, now = _earlier(pattern)
        for path in paths:
            match = earlier.fullmatch(os.path.abspath(path))
            if match is not None:
                found.setdefault(now.format(*match.groups()), []).append(path)
    same = {os.path.abspath(path) for path in paths}
    return {new: old for new, old in found.items() if new not in same}


def _earlier(pattern: str) -> tuple[re.Pattern[str], str]:
    """Build a regular expression for a pattern's earlier names, and a format string for its current name."""
    temporary = tempfile.gettempdir() + os.sep
    expression = now = ""
    if pattern.startswith(temporary):
        own, _, pattern = pattern[len(temporary) :].partition(os.sep)
        expression, now = f"{re.escape(temporary)}[^/]+{os.sep}", _literally(f"{temporary}{own}{os.sep}")
    at = 0
    for match in _VARIES.finditer(pattern):
        literal = pattern[at : match.start()]
        varies = match["clock"] is not None
        expression += re.escape(literal) + (f"(?:{CLOCK.pattern})" if varies else "([^/]*)")
        now += _literally(literal + match[0]) if varies else _literally(literal) + "{}"
        at = match.end()
    return re.compile(expression + re.escape(pattern[at:])), now + _literally(pattern[at:])


def _literally(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
