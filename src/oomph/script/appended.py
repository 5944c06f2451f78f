"""Records what a script appends to its files between fits, so that a restart notices when it appends it again.

The file may belong to other runs too, so nothing is removed from it; the repetition is only reported. A script that
reads the file first is trusted to handle it. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from oomph.files.regular_file import read_regular
from oomph.files.run_files import OwnFile
from oomph.script.script_line import caller, calling

_MOST_NOTES = 10_000
_KEY_BYTES = 16
_LOGS = ("logging", "absl.logging")
"""Modules that append to logs, not to results."""

Tell = Callable[[str, str], None]
"""Called with the path and script line of a file that is appended to again."""


class Appends:
    """The appends of this attempt and of earlier attempts.

    Args:
        run_dir: the run directory.
        attempt: the current attempt.
        tell: called once for each script line that repeats an append.
    """

    def __init__(self, run_dir: Path, attempt: int, tell: Tell) -> None:
        self._file, self._tell = OwnFile(run_dir, f"appended-{attempt}"), tell
        self._counts: Counter[str] = Counter()
        self._read: set[str] = set()
        self._told: set[str] = set()
        self._earlier = {key for number in range(1, attempt) for key in _keys(run_dir / f"appended-{number}")}

    def opened(self, path: str, flags: int) -> None:
        """Handle a file that the script is about to open with these flags while no fit is running."""
        if not flags & (os.O_WRONLY | os.O_RDWR):
            if self._earlier:
                self._read.add(path)
        elif flags & os.O_APPEND:
            self._append(path)

    def _append(self, path: str) -> None:
        line, frame = calling(), caller()
        if line is None or (frame is not None and str(frame.f_globals.get("__name__")).startswith(_LOGS)):
            return
        place = f"{path} {line.place}"
        self._counts[place] += 1
        key = hashlib.blake2b(f"{place} {self._counts[place]}".encode(), digest_size=_KEY_BYTES).digest()
        if key in self._earlier and path not in self._read and line.site not in self._told:
            self._told.add(line.site)
            self._tell(path, line.site)
        if self._counts.total() <= _MOST_NOTES:
            _note(self._file, key)


def _note(file: OwnFile, key: bytes) -> None:
    try:
        fd = file.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        return  # a full disk must not end the training
    try:
        os.write(fd, key)
    except OSError:
        pass
    finally:
        os.close(fd)


def _keys(path: Path) -> set[bytes]:
    try:
        content = read_regular(path, _KEY_BYTES * _MOST_NOTES)
    except OSError:
        return set()
    return {content[start : start + _KEY_BYTES] for start in range(0, len(content), _KEY_BYTES)}
