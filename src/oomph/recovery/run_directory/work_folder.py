"""A folder to work in, for verbs that run a script several times: the user's choice, or one that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oomph.errors import UsageError


@contextmanager
def work_folder(keep: str | None, prefix: str) -> Iterator[Path]:
    """The folder; raises UsageError when the one named by the user is in use or cannot be written."""
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
