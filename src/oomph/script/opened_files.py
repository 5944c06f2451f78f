"""Tracks the files that a script writes while it trains, and restores them before it opens them after a restart.

Callbacks write logs and read them back. A restarted script finds them as the dead process left them, with lines of
steps that are about to be repeated. So their content at the checkpoint is restored at the moment the script opens such
a file itself: a checkpoint is data and must not choose which file is written. Standard library only.

Python reports the files that it opens and renames (audit events, PEP 578); `library_files.py` covers libraries that
open files themselves. A database is left alone: it may already contain this attempt, as the storage of a tuner does.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.files.regular_file import read_regular
from oomph.files.run_files import is_reaching
from oomph.files.user_code import GENERATED
from oomph.script.appended import Appends
from oomph.script.library_files import tell_of_openings
from oomph.script.named_paths import may_be_restored

_MOST_FILES = 1000
_NOT_FILES = ("/dev/", "/proc/", "/sys/")

_TICK_NS = 2_000_000_000
"""Times closer than these nanoseconds may be equal: the clocks of some file systems tick in seconds."""

Stamp = tuple[int, int]
"""The size of a file in bytes, and the time of its last change in nanoseconds."""
Origin = tuple[int, int]
"""The inodes of a file and of its folder."""


@dataclass(frozen=True)
class FileState:
    """The state of a file at a checkpoint; `content` is None if it was too large to copy."""

    path: str
    stamp: Stamp
    content: bytes | None = None
    origin: Origin | None = None
    since_ns: int = 0
    """The time at which the checkpoint was written, by the clock of the kernel."""

    def lies_where_it_lay(self) -> bool:
        """True if the file may be replaced: it is missing, the checkpoint's own, or newer than the checkpoint.

        Compares inodes and change times, which the kernel keeps: a planted checkpoint cannot name another file.
        """
        try:
            now = os.lstat(self.path)
        except OSError:
            return True
        found = origin_of(self.path)
        if self.origin is None or found is None or found[1] != self.origin[1]:
            return False
        return found[0] == self.origin[0] or now.st_ctime_ns >= self.since_ns - _TICK_NS

    def holds_now(self) -> bool:
        """True if the file is unchanged."""
        found = stamp_of(self.path)
        if found == self.stamp:
            return True
        if found is None or self.content is None or not found[0] == self.stamp[0] == len(self.content):
            return False
        try:
            return read_regular(Path(self.path), found[0]) == self.content
        except OSError:
            return False  # one of the kernel's says that it is empty, and has no end


def stamp_of(path: str) -> Stamp | None:
    """The size and change time of a regular file; None for anything else."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if os.path.isfile(path) else None


def origin_of(path: str) -> Origin | None:
    """The inodes of a file and of its folder; None if the file does not exist."""
    try:
        return os.stat(path).st_ino, os.stat(os.path.dirname(os.path.abspath(path))).st_ino
    except OSError:
        return None


class OpenedFiles:
    """Watches what this process opens.

    Args:
        except_under: a folder whose files do not belong to the script.
        appends: notified of files opened while no fit runs.
    """

    def __init__(self, except_under: Path | None = None, appends: Appends | None = None) -> None:
        self.written: dict[str, None] = {}
        """The paths that were opened for writing while a fit ran."""
        self._except = () if except_under is None else (f"{except_under.absolute()}{os.sep}",)
        self._noting = False
        self._due: dict[str, tuple[FileState, Stamp | None]] = {}
        """Path → the state to restore, and the stamp of the file when that was decided."""
        self._suspect: set[str] = set()
        self._on_lost: Callable[[str], None] = lambda path: None
        self._busy = threading.local()
        self._hooked = False
        self._appends = appends
        if appends is not None:
            self._hook()

    def begin(self) -> None:
        """Start recording which files are opened for writing."""
        self._hook()
        tell_of_openings(self.opened)
        self.written.clear()
        self._noting = True

    def end(self) -> None:
        """Stop recording."""
        self._noting = False

    def put_back_when_opened(self, states: Mapping[str, FileState], on_lost: Callable[[str], None]) -> None:
        """Restore these files when the script next opens them, unless it truncates or has already written them.

        Args:
            states: by path; unchanged files are left alone.
            on_lost: called with the path of a file that the script reads and that cannot be restored.
        """
        for path, state in states.items():
            self._due.pop(path, None)  # an earlier due state is older
            if not state.holds_now():
                self._due[path] = state, stamp_of(path)
        self._on_lost = on_lost
        if self._due:
            self._hook()
            tell_of_openings(self.opened)

    def tell_when_read(self, paths: Iterable[str]) -> None:
        """Report when the script reads one of these logs, which hold the lines of repeated steps twice."""
        self._suspect.update(paths)
        self._hook()

    def opened(self, path: Any, flags: int) -> None:
        """Handle a file that is about to be opened."""
        if getattr(self._busy, "now", False) or is_reaching() or isinstance(path, int):
            return
        full = os.path.abspath(os.fsdecode(path))
        if self._noting and flags & (os.O_WRONLY | os.O_RDWR) and self._is_the_scripts(full):
            self.written[full] = None
        if self._appends is not None and not self._noting and self._is_the_scripts(full):
            self._within(self._appends.opened, full, flags)
        if full in self._suspect and not flags & (os.O_WRONLY | os.O_RDWR):
            self._suspect.discard(full)
            self._on_lost(full)
        if full in self._due:
            state, stamp = self._due.pop(full)
            if not flags & os.O_TRUNC and stamp_of(full) == stamp:
                self._put_back(state)

    def renamed(self, path: Any) -> None:
        """Handle a file that is about to get this name: an atomic replacement writes a temporary file first."""
        if getattr(self._busy, "now", False) or is_reaching():
            return
        full = os.path.abspath(os.fsdecode(path))
        self._due.pop(full, None)
        if self._noting and self._is_the_scripts(full):
            self.written[full] = None

    def _is_the_scripts(self, path: str) -> bool:
        is_file = not path.startswith((*_NOT_FILES, *self._except)) and GENERATED not in path
        return len(self.written) < _MOST_FILES and is_file

    def _within(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run an action that itself opens files, without handling those."""
        self._busy.now = True
        try:
            action(*arguments)
        finally:
            self._busy.now = False

    def _put_back(self, state: FileState) -> None:
        if state.content is None or not (state.lies_where_it_lay() and may_be_restored(state.path, state.content)):
            self._on_lost(state.path)
            return
        try:
            self._within(replace_file, Path(state.path), state.content)
        except OSError:
            self._on_lost(state.path)

    def _hook(self) -> None:
        if not self._hooked:
            self._hooked = True
            sys.addaudithook(self._on_event)  # cannot be removed

    def _on_event(self, event: str, arguments: Any) -> None:
        if event not in ("open", "os.rename"):
            return
        if self._noting or self._due or self._suspect or self._appends is not None:
            try:
                if event == "open":
                    self.opened(arguments[0], arguments[2])
                else:
                    self.renamed(arguments[1])
            except Exception:
                pass  # the script's own call reports what is wrong with the path


def log_files() -> list[str]:
    """The files that handlers of `logging` append to."""
    handlers = [reference() for reference in getattr(logging, "_handlerList", [])]
    return [str(h.baseFilename) for h in handlers if isinstance(h, logging.FileHandler) and "a" in h.mode]


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file's content atomically, keeping its mode and touching no other file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f"{uuid.uuid4().hex}.oomph")
    with own.open("wb") as file:
        try:
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.replace(own, path)
        except BaseException:
            own.unlink(missing_ok=True)
            raise
