"""Removes, in the script process, the remains of a `Dataset.cache(filename)` that a killed attempt left unfinished.

TensorFlow writes a cache as files NAME_0.index, NAME_0.data-00000-of-00001, ..., with a NAME_0.lockfile, and refuses to
start another cache while any of them exists (`FileWriterIterator` in tensorflow/core/kernels/data/cache_dataset_ops.cc;
the names in core/util/tensor_bundle). The process that wrote them is dead, and no other process can complete them. So
oomph removes them before a restarted script uses the cache. It leaves files alone that have other names, are older than
the run directory on this machine, have no TensorFlow lock next to them, or are open in a process.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from oomph.files.opening import read_regular
from oomph.journal.events import CreatedBefore
from oomph.keras_bridge.runtime.patching import patch
from oomph.script.session import Session

_PART = re.compile(r"_[0-9]+\.(?:lockfile|(?:index|data-[0-9]{5}-of-[0-9]{5})(?:\.tempstate[0-9]+)?)")
_LOCK, _LOCKED = ".lockfile", b"Created at: "
_MOST_READ = 64


def watch(session: Session) -> None:
    """Make `Dataset.cache` remove the unfinished files that earlier attempts of this run left at its path."""
    began = _began(session.run_dir)
    if session.handover.attempt == 1 or not session.owner or began is None:
        return
    cls = tf.data.Dataset
    cache = cls.cache

    @functools.wraps(cache)
    def cache_anew(self: Any, filename: Any = "", name: Any = None) -> Any:
        if isinstance(filename, (str, os.PathLike)) and os.fspath(filename) and session.is_owner_now():
            _remove_parts(session, os.fspath(filename), began)
        return cache(self, filename, name)

    patch(cls, "cache", cache_anew)


def _began(run_dir: Path | None) -> int | None:
    """Return the start time of the run's first attempt, in nanoseconds since 1970, by the kernel's clock.

    For a run directory copied from elsewhere, that is the time when it was copied.
    """
    try:
        return None if run_dir is None else (run_dir / "owner-1").stat().st_ctime_ns
    except OSError:
        return None


def _remove_parts(session: Session, filename: str, began: int) -> None:
    """Remove the files created since the run started: older ones belong to another program."""
    if os.path.exists(f"{filename}.index"):
        return  # the cache is complete
    parts = [part for part in _parts(filename) if _is_file_since(part, began)]
    if not any(map(_is_lock, parts)) or _are_open(parts):
        return
    for part in parts:
        try:
            os.unlink(part)
            session.journal.write(CreatedBefore(kind="cache", path=part, site=""))
        except OSError:
            pass  # TensorFlow will report the problem with the file


def _parts(filename: str) -> Iterator[str]:
    found = glob.glob(f"{glob.escape(filename)}_[0-9]*")
    return (path for path in found if _PART.fullmatch(path, len(filename)))


def _is_file_since(path: str, began: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and min(found.st_mtime_ns, found.st_ctime_ns) >= began


def _is_lock(path: str) -> bool:
    try:
        return path.endswith(_LOCK) and read_regular(Path(path), _MOST_READ).startswith(_LOCKED)
    except OSError:
        return False


def _are_open(paths: Iterable[str]) -> bool:
    """True if a process of this user has one of these files open, and so is still writing the cache."""
    wanted = {os.path.realpath(path) for path in paths}
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) in wanted:
                return True
        except OSError:
            continue
    return False
