"""Keeps TensorFlow's reports of failed allocations off the terminal while the guard recovers. Supervisor process.

A report goes to `stderr/<attempt>-memory.log`. It is shown only if the step was not recovered, in front of what the
script prints about that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from oomph.recovery.posix.kept_file import KeptFile
from oomph.recovery.protocol.phases import Phase
from oomph.recovery.supervisor.held_back import HeldBack
from oomph.run_files import OwnFile

KEPT_BYTES = 16 << 20
_DECIDE_SECONDS = 2.0
"""How long the guard may take to record what became of a step."""
_PICK_UP_SECONDS = 0.5
"""How long it may take to pick up a failed allocation after the last line of the report."""
_KEEP = ("recovered", "restart-requested")
_SHOW = ("gave-up",)

Outcome = Callable[[], str]


class NativeReports:
    """The reports of one attempt.

    Args:
        file: where they are kept.
        outcome: asks for the name of the script's latest event about memory: "oom", "recovered", "gave-up", …
        tell: called once with the number of lines kept.
        seen: the native lines of earlier attempts; those of this one are added.
    """

    def __init__(self, file: OwnFile, outcome: Outcome, tell: Callable[[int], None], seen: set[bytes]) -> None:
        self._held = HeldBack(seen)
        self._held.holding = False
        self._file, self._outcome, self._tell = file, outcome, tell
        self._tail: KeptFile | None = None
        self._since, self._guarded, self._told = 0.0, False, False

    def take(self, data: bytes) -> bytes:
        """Take in what the script has written to stderr; returns what to pass on now."""
        return self._written_down(*self._held.take(data))

    def attend(self, phase: Phase | None) -> bytes:
        """Called in every turn of the supervisor's loop, when stderr was read; returns what to pass on now."""
        out = self._written_down(*self._held.idle())
        self._held.holding = phase is not None  # no Keras has been met: nobody could recover
        if phase not in (None, Phase.OWN_CODE):
            self._held.starting = False
        if not self._held.lines:
            self._guarded = False
            return out
        if phase is Phase.RECOVERING:
            self._guarded, self._since = True, time.monotonic()
            return out
        decided = self._outcome() if self._guarded else ""
        longest = _DECIDE_SECONDS if self._guarded else _PICK_UP_SECONDS
        if decided in _KEEP:
            out += self._kept()
        elif decided in _SHOW or time.monotonic() - self._since > longest:
            out += self._held.release()
        return out

    def end(self) -> bytes:
        """The script has ended. Returns what nobody has recovered from."""
        rest = self._written_down(*self._held.idle())
        kept = self._kept() if self._held.lines and self._outcome() in _KEEP else b""
        if self._tail is not None:
            self._tail.close()
        return kept + self._held.release() + rest

    def _written_down(self, out: bytes, held: bytes) -> bytes:
        """Append what was held to the file; returns the rest."""
        if held:
            self._tail = self._tail or KeptFile(self._file, KEPT_BYTES)
            self._tail.feed(held)
            self._since = time.monotonic()
        return out

    def _kept(self) -> bytes:
        """Leave the report to the file; returns it instead if that could not be written."""
        if self._tail is None or not self._tail.is_written:
            return self._held.release()
        lines = self._held.lines
        self._held.drop()
        if not self._told:
            self._told = True
            self._tell(lines)
        return b""
