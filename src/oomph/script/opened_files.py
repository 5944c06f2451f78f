"""Tracks the files that a script writes during training, and restores each one when a restarted script opens it.

Callbacks write logs and read them back. A restarted script finds the logs as the dead process left them, with lines
from steps that are about to be repeated. Their contents at the checkpoint are therefore restored, but only at the
moment the script itself opens the file: a checkpoint is just data, and must not choose which file is written.

Python reports the files that it opens and renames (audit events, PEP 578). h5py's `File` and TensorFlow's `GFile` don't
raise audit events, so their methods are made to report files. A database is left alone, since it may already include
this attempt, as a tuner's storage does.

A file that a script appends to between fits may belong to other runs as well, so nothing is removed from it;
repetitions are only reported. A script that reads the file first is trusted to handle them. Standard library only;
doesn't import anything that the script has not imported.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.files.opening import OwnFile, is_reaching, read_regular
from oomph.files.user_code import GENERATED
from oomph.process import undoing
from oomph.script.restorable import may_be_restored
from oomph.script.script_line import caller, calling

_FLAGS = {"r": os.O_RDONLY, "rb": os.O_RDONLY, "r+": os.O_RDWR, "a": os.O_RDWR, "ab": os.O_RDWR, "a+": os.O_RDWR}
"""The `os.open` flags for each mode of h5py and TensorFlow; all other modes truncate the file."""


def tell_of_openings(opened: Callable[[Any, int], None]) -> None:
    """Call `opened` with the path and flags before a library that the script has loaded opens a file."""
    _tell_before(getattr(sys.modules.get("h5py"), "File", None), "__init__", _named_in_call, opened)
    file_io = getattr(sys.modules.get("tensorflow.python.lib.io.file_io"), "FileIO", None)
    for method in ("_preread_check", "_prewrite_check"):
        _tell_before(file_io, method, _named_in_file, opened)


def _named_in_call(file: Any, name: Any, mode: str = "r", *others: Any, **options: Any) -> tuple[Any, str]:
    return name, mode


def _named_in_file(file: Any) -> tuple[Any, str]:
    is_open = file._read_buf is not None or file._writable_file is not None
    return (0 if is_open else file.name), file.mode


def _tell_before(
    kind: Any, method: str, named: Callable[..., tuple[Any, str]], opened: Callable[[Any, int], None]
) -> None:
    """Make a method report the file that it is about to open, and the mode."""
    original = None if kind is None else getattr(kind, method, None)
    if original is None:
        return
    if hasattr(original, "tell_opened"):
        original.tell_opened = opened
        return

    @functools.wraps(original)
    def telling(*args: Any, **kwargs: Any) -> Any:
        try:
            name, mode = named(*args, **kwargs)
            if isinstance(name, (str, bytes, os.PathLike)):
                vars(telling)["tell_opened"](name, _FLAGS.get(mode, os.O_RDWR | os.O_TRUNC))
        except Exception:
            pass  # the library will report the problem with the name
        return original(*args, **kwargs)

    vars(telling)["tell_opened"] = opened
    setattr(kind, method, telling)
    undoing.remember(lambda: setattr(kind, method, original) if getattr(kind, method) is telling else None)


_MOST_NOTES = 10_000
_KEY_BYTES = 16
_LOGS = ("logging", "absl.logging")
"""Modules that append to logs, not to results."""

Tell = Callable[[str, str], None]
"""Called with a file's path and the script line that appends to it a second time."""


class Appends:
    """Records this attempt's appends to files, and compares them with those of earlier attempts.

    Args:
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
        return  # a full disk must not stop training
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


_MOST_FILES = 1000
_NOT_FILES = ("/dev/", "/proc/", "/sys/")

_TICK_NS = 2_000_000_000
"""Times that differ by less than this many nanoseconds may be equal: some file systems' clocks tick in seconds."""

Stamp = tuple[int, int]
"""A file's size in bytes, and the time of its last change in nanoseconds."""
Origin = tuple[int, int]
"""The inodes of a file and its folder."""


@dataclass(frozen=True)
class FileState:
    """A file's state at a checkpoint; `content` is None if the file was too large to copy."""

    path: str
    stamp: Stamp
    content: bytes | None = None
    origin: Origin | None = None
    since_ns: int = 0
    """The time at which the checkpoint was written, according to the kernel's clock."""

    def lies_where_it_lay(self) -> bool:
        """True if the file may be replaced because it is missing, is the original, or is newer than the checkpoint.

        Compares inodes and change times, which the kernel maintains, so that a planted checkpoint cannot specify a
        different file.
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
        """True if the file has not changed since the checkpoint."""
        found = stamp_of(self.path)
        if found == self.stamp:
            return True
        if found is None or self.content is None or not found[0] == self.stamp[0] == len(self.content):
            return False
        try:
            return read_regular(Path(self.path), found[0]) == self.content
        except OSError:
            return False  # a kernel file may claim to be empty, yet never end


def stamp_of(path: str) -> Stamp | None:
    """Return the size and change time of a regular file, or None for anything else."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if os.path.isfile(path) else None


def origin_of(path: str) -> Origin | None:
    """Return the inodes of a file and its folder, or None if the file does not exist."""
    try:
        return os.stat(path).st_ino, os.stat(os.path.dirname(os.path.abspath(path))).st_ino
    except OSError:
        return None


_watching: list[OpenedFiles] = []
_is_hooked = False


def _on_event(event: str, arguments: Any) -> None:
    """Pass an audit event on. A process has this one audit hook, since none can ever be removed."""
    if _watching and event in ("open", "os.rename"):
        for each in _watching:
            each.on_event(event, arguments)


class OpenedFiles:
    """Watches the files that this process opens.

    Args:
        except_under: a folder whose files do not belong to the script.
        appends: notified of files that are opened while no fit is running.
    """

    def __init__(self, except_under: Path | None = None, appends: Appends | None = None) -> None:
        self.written: dict[str, None] = {}
        """The paths that were opened for writing during a fit."""
        self._except = () if except_under is None else (f"{except_under.absolute()}{os.sep}",)
        self._noting = False
        self._due: dict[str, tuple[FileState, Stamp | None]] = {}
        """Maps a path to the state to restore, and the file's stamp when that was decided."""
        self._suspect: set[str] = set()
        self._on_lost: Callable[[str], None] = lambda path: None
        self._busy = threading.local()
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
        """Restore these files when the script next opens them, unless it truncates or has already rewritten them.

        Args:
            states: the states to restore, by path; unchanged files are left alone.
            on_lost: called with the path of a file that the script reads, but that cannot be restored.
        """
        for path, state in states.items():
            self._due.pop(path, None)  # any state already due is older
            if not state.holds_now():
                self._due[path] = state, stamp_of(path)
        self._on_lost = on_lost
        if self._due:
            self._hook()
            tell_of_openings(self.opened)

    def tell_when_read(self, paths: Iterable[str]) -> None:
        """Report when the script reads one of these logs, which contain the lines from repeated steps twice."""
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
        """Handle a file that is about to be renamed to this path, as in an atomic replacement of a file."""
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
        """Run an action that opens files itself, without tracking those files."""
        self._busy.now = True
        try:
            action(*arguments)
        finally:
            self._busy.now = False

    def _put_back(self, state: FileState) -> None:
        if state.content is None or not (state.lies_where_it_lay() and may_be_restored(state.path)):
            self._on_lost(state.path)
            return
        try:
            self._within(replace_file, Path(state.path), state.content)
        except OSError:
            self._on_lost(state.path)

    def close(self) -> None:
        """Stop watching for good."""
        if self in _watching:
            _watching.remove(self)

    def _hook(self) -> None:
        global _is_hooked
        if self not in _watching:
            _watching.append(self)
        if not _is_hooked:
            _is_hooked = True
            sys.addaudithook(_on_event)

    def on_event(self, event: str, arguments: Any) -> None:
        """Handle an audit event about a file."""
        if self._noting or self._due or self._suspect or self._appends is not None:
            try:
                if event == "open":
                    self.opened(arguments[0], arguments[2])
                else:
                    self.renamed(arguments[1])
            except Exception:
                pass  # the script's own call will report the problem with the path


def log_files() -> list[str]:
    """Return the files that `logging` handlers append to."""
    handlers = [reference() for reference in getattr(logging, "_handlerList", [])]
    return [str(h.baseFilename) for h in handlers if isinstance(h, logging.FileHandler) and "a" in h.mode]


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file's contents atomically, keeping its mode and leaving all other files alone."""
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
