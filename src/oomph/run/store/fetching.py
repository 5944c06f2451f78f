"""Fetches a run directory from its store, all of it or nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from oomph.errors import StoreError
from oomph.files.opening import FOLDER_MODE, open_own
from oomph.run.store.layout import FilePart, StoreManifest
from oomph.run.store.object_store import ObjectStore

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def fetch(objects: ObjectStore, manifest: StoreManifest, target: Path, go_on: Callable[[], None]) -> None:
    """Write the files of a manifest to a folder that does not exist yet. Raises StoreError.

    Args:
        go_on: called after each part.
    """
    partial = target.with_name(f"{target.name}.fetching-{os.getpid()}")
    try:
        partial.mkdir(mode=FOLDER_MODE, parents=True)
        for path, parts in manifest.files.items():
            with os.fdopen(open_own(partial, path, _NEW), "wb") as file:
                for part in parts:
                    file.write(_content(objects, part))
                    go_on()
                file.flush()
                os.fsync(file.fileno())
        partial.rename(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _content(objects: ObjectStore, part: FilePart) -> bytes:
    data = objects.read(part.name, part.nbytes)
    if data is None:
        raise StoreError(f"{objects.shown} is incomplete: {part.name} is missing")
    if len(data) != part.nbytes or hashlib.sha256(data).hexdigest() != part.digest:
        raise StoreError(f"{objects.shown} is damaged: {part.name} does not match its digest")
    return data
