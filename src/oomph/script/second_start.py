"""Helps a script start a second time, and records what stopped the script if it refuses.

`begin` runs before the script's first line. In every attempt, it records what the script creates. If there was an
earlier start, it also lets the script recreate the same things, and records at exit what stopped the script. Standard
library only.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from pathlib import Path
from typing import Any

from oomph.journal.events import CreatedBefore, StoppedAt
from oomph.protocol.creations import Earlier, Notes
from oomph.protocol.handover import Injection
from oomph.protocol.not_restartable import refuses
from oomph.script.created_before import Before, Creating
from oomph.script.script_line import ScriptLine, calling, raising
from oomph.script.session import Session

_MOST_SAID = 3
_MOST_TOLD = 100
_MOST_CHARACTERS = 2000
_MOST_PATHS = 1000


def begin(session: Session) -> None:
    """Record what the script creates, and let it recreate what an earlier attempt created."""
    if not session.owner or session.run_dir is None:
        return
    try:
        _begin(session, session.run_dir)
    except Exception as error:
        session.say(f"{type(error).__name__}: {error}; paths that the script creates are not recorded for a restart")


def _begin(session: Session, run_dir: Path) -> None:
    attempt, injection = session.handover.attempt, Injection.read()
    others = () if injection is None else injection.earlier
    earlier = Earlier.read(run_dir, attempt, others)
    notes = Notes(run_dir, attempt)
    creating = Creating(notes, earlier)
    if attempt > 1 or others:
        notes.begin()
        exits = _Exits(creating)
        exits.watch()
        atexit.register(_tell_what_stopped_it, session, earlier, creating, exits)
        Before(earlier, creating, _Telling(session)).replace_functions()
    creating.watch()


class _Telling:
    """Prints the first few creations that count as done, and writes an event to the journal for each."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sites: dict[str, int] = {}

    def __call__(self, kind: str, path: str, site: str) -> None:
        told = sum(self._sites.values())
        self._sites[site] = self._sites.get(site, 0) + 1
        if told < _MOST_TOLD:
            self._session.journal.write(CreatedBefore(kind=kind, path=path, site=site))
        if self._sites[site] == 1 and len(self._sites) <= _MOST_SAID:
            name = os.path.relpath(path)
            self._session.say(f"{site}: {name} already exists from an earlier attempt, and counts as created")


class _Exits:
    """Remembers the script's last call to `sys.exit` with a nonzero code, since that leaves no traceback behind."""

    def __init__(self, creating: Creating) -> None:
        self._creating, self._original = creating, sys.exit
        self.code: Any = None
        self.line: ScriptLine | None = None

    def watch(self) -> None:
        """Replace `sys.exit` from now on."""
        sys.exit = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            code = args[0] if args else kwargs.get("status")
            if code not in (None, 0) and self._creating.is_owner_now():
                self.code, self.line = code, calling()
        except Exception:
            pass  # the script must exit in any case
        return self._original(*args, **kwargs)


def _tell_what_stopped_it(session: Session, earlier: Earlier, creating: Creating, exits: _Exits) -> None:
    """Record, at exit, the error or `sys.exit` call that stopped the script, for the supervisor."""
    if not session.is_owner_now():
        return
    error = getattr(sys, "last_value", None)
    line = exits.line if error is None else raising(error)
    if error is None and exits.line is None:
        return
    message = _text(exits.code if error is None else error)
    session.journal.write(
        StoppedAt(
            type="SystemExit" if error is None else type(error).__name__,
            message=message[:_MOST_CHARACTERS],
            site="" if line is None else line.site,
            source="" if line is None else line.source,
            refuses=line is not None and refuses(line.source, line.before),
            created=_created(error, message, earlier, creating),
        )
    )


def _created(error: BaseException | None, message: str, earlier: Earlier, creating: Creating) -> str:
    """Return "now" if this attempt created the obstructing path, "before" if an earlier one did, and "" otherwise."""
    path = _path_of(error)
    if not path:
        return "before" if any(map(_is_named_in(message), sorted(earlier.paths)[:_MOST_PATHS])) else ""
    return "now" if path in creating.paths else "before" if path in earlier.paths else ""


def _path_of(error: BaseException | None) -> str:
    """Return the absolute path in an OSError, or the destination if it has two, or "" if it has none."""
    if not isinstance(error, OSError):
        return ""
    path = error.filename if error.filename2 is None else error.filename2
    return os.path.abspath(os.fsdecode(path)) if isinstance(path, (str, bytes)) else ""


def _is_named_in(message: str) -> Any:
    """Return a function that tells whether a message contains a path, absolute or relative to the working directory."""

    def is_named(path: str) -> bool:
        forms = (path, os.path.relpath(path))
        return any(re.search(rf"(?<![\w./-]){re.escape(form)}(?![\w-])", message) for form in forms)

    return is_named


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return ""  # an exception whose __str__ fails
