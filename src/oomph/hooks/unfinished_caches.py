"""Removes, in the script process, what a killed attempt left of an unfinished `Dataset.cache(filename)`.

TensorFlow writes a cache as files NAME_0, NAME_1, ..., each with a lock, and refuses to start another cache while any
of them exists (`FileWriterIterator` in tensorflow/core/kernels/data/cache_dataset_ops.cc). The process that wrote them
is dead, and no other can complete them. So oomph removes them before a restarted script uses the cache.
"""

from __future__ import annotations

import functools
import glob
import os
from pathlib import Path
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.runtime.patching import patch
from oomph.script.session import Session


def watch(session: Session) -> None:
    """Make `Dataset.cache` remove what earlier attempts of this run left unfinished at its file."""
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


def _began(run_dir: Path | None) -> float | None:
    """When the first attempt of the run began, in seconds since 1970."""
    try:
        return None if run_dir is None else (run_dir / "owner-1").stat().st_mtime
    except OSError:
        return None


def _remove_parts(session: Session, filename: str, began: float) -> None:
    """Remove the files created since the run began: older ones belong to another program."""
    if os.path.exists(f"{filename}.index"):
        return  # it is complete
    for part in glob.glob(f"{glob.escape(filename)}_[0-9]*"):
        try:
            if os.stat(part).st_mtime >= began:
                os.unlink(part)
                session.journal.write("created-before", kind="cache", path=part, site="")
        except OSError:
            pass  # TensorFlow reports what is wrong with it
