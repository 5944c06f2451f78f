"""The user's script and the installed packages, read on the machine on which a log is explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ScriptCall:
    """A call in the user's script, as far as its arguments are written out."""

    name: str
    """The last part of the function's name: "fit" in `model.fit(...)`."""
    line: int
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The source of each named argument, and of the positional ones by their number."""


@dataclass(frozen=True)
class SeenScript:
    """The file and line of the user's that failed, read as text."""

    file: str
    line: int
    statement: str
    """The statement that failed, on one line."""
    calls: Sequence[ScriptCall] = ()
    """The calls in this file that decide how a model is trained, in order."""

    def calls_of(self, *names: str) -> list[ScriptCall]:
        """Return the calls of these functions."""
        return [call for call in self.calls if call.name in names]


@dataclass(frozen=True)
class AtHand:
    """The files that were read besides the log."""

    script: SeenScript | None = None
    packages: str = ""
    """The folder of installed packages whose versions were read; empty if none was."""
    unread: str = ""
    """The reason why the script was not read, without a full stop; empty if it was, or is not there."""
