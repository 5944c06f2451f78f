"""A work folder for verbs that run a script several times: the user's choice, or a temporary one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oomph.errors import UsageError


@contextmanager
def work_folder(keep: str | None, prefix: str) -> Iterator[Path]:
    """The folder to work in; raises UsageError when the user's choice is not empty or cannot be written."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    path = Path(keep)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{keep} is not empty: choose another directory")
    except OSError as error:
        raise UsageError(f"{keep} cannot be written: {error.strerror}") from error
    yield path.resolve()
