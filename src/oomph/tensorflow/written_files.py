"""The files that a fit's callbacks have written: part of what the fit has brought about, as its weights are.

Their content is noted when the fit ends, and copied where it is small. A fit is not skipped while a file of it is
another one, or gone. What is put back is written only where a callback of this process names that very file: a
checkpoint is data, and names no file to write.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from oomph.recovery.checkpoint import Checkpoint
from oomph.tensorflow.objects.kinds import dict_of
from oomph.tensorflow.state import Array, read_arrays

_MOST_COPIED = 64 << 20
_MOST_READ = 1 << 30
_PLACEHOLDER = re.compile(r"\\\{.*?\\\}")
_GLOB = re.compile(r"\{.*?\}")
_APPENDED = ("TensorBoard",)
"""Callbacks whose files are logs that nobody reads back."""


def noted(callbacks: list[Any], since: float) -> tuple[list[dict[str, Any]], list[Array]]:
    """The files that these callbacks name and that were written since then, and copies of the small ones."""
    found, copies, room = [], [], _MOST_COPIED
    for path in _named_by(callbacks):
        entry = _entry(path)
        if entry is None or path.stat().st_mtime < since - 1:
            continue
        if entry["size"] <= room:
            room -= entry["size"]
            entry["copy"] = len(copies)
            copies.append(Array(f"file/{len(copies)}", "uint8", np.frombuffer(path.read_bytes(), np.uint8)))
        found.append(entry)
    return found, copies


def changed_since(checkpoint: Checkpoint, callbacks: list[Any]) -> list[str]:
    """The files that are not what they were, and cannot be put back, in words."""
    return [
        f"the file {entry['path']}, which it wrote, is {'another one' if os.path.exists(entry['path']) else 'gone'}"
        for entry in _entries(checkpoint)
        if not _is_as_it_was(entry) and not (isinstance(entry.get("copy"), int) and _is_named(entry["path"], callbacks))
    ]


def put_back(checkpoint: Checkpoint, callbacks: list[Any]) -> None:
    """Write the files that are not what they were, of those that a callback of this process names."""
    copies: dict[str, Any] | None = None
    for entry in _entries(checkpoint):
        if _is_as_it_was(entry) or not isinstance(entry.get("copy"), int) or not _is_named(entry["path"], callbacks):
            continue
        copies = read_arrays(checkpoint, "file/") if copies is None else copies
        path = Path(entry["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.oomph")
        temporary.write_bytes(copies[str(entry["copy"])].tobytes())
        os.replace(temporary, path)


def _entries(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    for entry in checkpoint.meta.get("files", ()):
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            yield entry


def _entry(path: Path) -> dict[str, Any] | None:
    try:
        size = path.stat().st_size
        return {"path": str(path), "size": size, "digest": _digest(path, size)} if path.is_file() else None
    except OSError:
        return None


def _is_as_it_was(entry: dict[str, Any]) -> bool:
    now = _entry(Path(entry["path"]))
    return now is not None and (now["size"], now["digest"]) == (entry.get("size"), entry.get("digest"))


def _digest(path: Path, size: int) -> str:
    if size > _MOST_READ:
        return f"written {path.stat().st_mtime_ns}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_named(path: str, callbacks: list[Any]) -> bool:
    """Whether a callback of this process writes to that file, or to one of that pattern."""
    return any(
        re.fullmatch(_PLACEHOLDER.sub(r"[^/]*", re.escape(pattern)), path) for pattern in _patterns(callbacks)
    )  # fmt: skip


def _named_by(callbacks: list[Any]) -> list[Path]:
    """The files that exist under the names that callbacks hold."""
    found: dict[str, None] = {}
    for pattern in _patterns(callbacks):
        names = glob.glob(_GLOB.sub("*", glob.escape(pattern).replace("[{]", "{"))) if "{" in pattern else [pattern]
        found |= dict.fromkeys(name for name in sorted(names) if os.path.isfile(name))
    return [Path(name) for name in found]


def _patterns(callbacks: list[Any]) -> Iterator[str]:
    for callback in callbacks:
        if any(base.__name__ in _APPENDED for base in type(callback).__mro__):
            continue
        for value in dict_of(callback).values():
            if isinstance(value, (str, os.PathLike)) and len(os.fspath(value)) < 4096 and os.fspath(value):
                yield str(os.fspath(value))
