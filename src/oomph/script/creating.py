"""An audit hook that notices what the script creates while it does so. Standard library only.

Python calls the hook before an event takes place. Whatever is missing then and exists at the next event of the same
thread was created in between, because Python raises an event for everything it does to a file. The hook is called for
every event of the process and returns at once for all but a few kinds. It never raises.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from oomph.files.run_files import is_reaching
from oomph.protocol.creations import DIRECTORY, FILE, LINK, Creation, Earlier, Notes
from oomph.script.script_line import caller, calling

Hook = Callable[[str, tuple[Any, ...]], None]

_EXCLUSIVE = os.O_CREAT | os.O_EXCL
_EVENTS = frozenset(("open", "os.mkdir", "os.symlink", "os.link", "os.rename"))
_NAMES_OF_THEIR_OWN = ("tempfile", "importlib._bootstrap_external", "_frozen_importlib_external")
"""Modules that pick a new name each time, so a restart cannot collide."""
_TAKE_EXIST_OK = ("os", "pathlib")


class Creating:
    """Watches what the owner process of this attempt creates; processes that it starts or forks are ignored."""

    def __init__(self, notes: Notes, earlier: Earlier) -> None:
        self._notes, self._earlier, self._pid = notes, earlier, os.getpid()
        self._pending: dict[int, tuple[str, Creation]] = {}
        """The thread's identifier → the creation that it has begun."""
        self._counts: dict[tuple[str, str, str], int] = {}
        self.paths: set[str] = set()
        """Paths that this attempt has created or counts as having created."""

    def watch(self) -> None:
        """Install the hook; an audit hook cannot be removed."""
        sys.addaudithook(self.hook())

    def hook(self) -> Hook:
        """The audit hook. Uses closures only, since it runs for each event and until Python has shut down."""
        events, pending, settle, see = _EVENTS, self._pending, self._settle, self._see

        def notice(event: str, args: tuple[Any, ...]) -> None:
            if pending:
                settle()
            if event in events:
                see(event, args)

        return notice

    def is_owner_now(self) -> bool:
        """False in a fork of the process, which inherits the hook."""
        return os.getpid() == self._pid

    def next(self, kind: str, path: str, place: str) -> Creation:
        """The next creation of this kind, path and place, with its number."""
        return Creation(kind, path, place, self._counts.get((kind, path, place), 0) + 1)

    def done(self, creation: Creation) -> None:
        """Record that a creation is complete."""
        self._counts[creation[:3]] = creation.number
        self.paths.add(creation.path)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        try:
            self._note(event, args)
        except Exception:
            pass  # a later attempt gets no help with it; the script must not notice

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        asked = _asked(event, args)
        if asked is None or is_reaching() or not self.is_owner_now():
            return
        kind, path = asked
        if not kind:
            self._note_rename(os.fsdecode(args[0]), path)
        elif not os.path.lexists(path) and not is_left_alone():
            line = calling()
            if line is not None:
                creation = self.next(kind, path, line.place)
                name = self._notes.about_to(creation)
                if name:
                    self._pending[get_ident()] = name, creation

    def _note_rename(self, source: str, path: str) -> None:
        if path in self.paths or path in self._earlier.paths:
            inode = os.lstat(source).st_ino
            self._notes.renamed(path, inode)
            self._earlier.renamed(path, inode)

    def _settle(self) -> None:
        """Check if what this thread was creating exists now."""
        try:
            name, creation = self._pending.pop(get_ident(), ("", None))
            if creation is None or not self.is_owner_now():
                return
            inode = _inode(creation.path)
            self._notes.ended(name, inode)
            if inode is not None:
                self.done(creation)
        except Exception:
            pass


def is_left_alone() -> bool:
    """True if the creating code accepts what exists or picks a new name each time."""
    frame = caller()
    if frame is None:
        return True
    module = str(frame.f_globals.get("__name__"))
    takes_what_is_there = module.startswith(_TAKE_EXIST_OK) and frame.f_locals.get("exist_ok") is True
    return takes_what_is_there or module in _NAMES_OF_THEIR_OWN


def _asked(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    """The kind and path of what an event creates; the kind is empty for a rename. None if it creates nothing known."""
    if event == "open":
        new = isinstance(args[2], int) and args[2] & _EXCLUSIVE == _EXCLUSIVE
        return (FILE, _absolute(args[0])) if new and not isinstance(args[0], int) else None
    kind, path, folder = _KINDS[event]
    return (kind, _absolute(args[path])) if args[folder] == -1 else None


_KINDS = {
    "os.mkdir": (DIRECTORY, 0, 2),
    "os.symlink": (LINK, 1, 2),
    "os.link": (LINK, 1, 3),
    "os.rename": ("", 1, 3),
}
"""Event → the kind, and the argument positions of the path and its folder descriptor."""


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
