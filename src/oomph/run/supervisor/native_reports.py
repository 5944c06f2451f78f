"""Keeps TensorFlow's reports of failed allocations off the terminal while the guard recovers. Supervisor process.

A report goes to `stderr/<attempt>-memory.log`. It is shown only if the step was not recovered, in front of what the
script prints about that.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from oomph.files.opening import OwnFile
from oomph.process.held_back import HeldBack, head_of
from oomph.process.stderr import KeptFile
from oomph.protocol.progress import Phase
from oomph.run.supervisor.memory_outcome import MemoryOutcome, OutOfMemoryOutcome

KEPT_BYTES = 16 << 20
_START_SECONDS = 60.0
"""The most seconds for TensorFlow's start-up lines in a script that reports no fit."""
_PARTIAL_SECONDS, _PARTIAL_SECONDS_IN_A_FLOOD = 0.05, 0.5
"""The seconds to wait for the end of a partial line: in silence, and while the script keeps writing."""
_LOOK_SECONDS = 0.1
_MARK_SECONDS, _MARK_SECONDS_IN_A_FLOOD = 1.0, 5.0
"""The seconds between two marks at the end of the journals, so that only later events count for the next report."""
_QUIET_SECONDS, _LOUD_SECONDS = 0.5, 2.0
"""The seconds a guard may take to react to an error, from its report's last line and from its first."""
_STEP_SECONDS = 12.0
"""The seconds instead within a training: other operations of the step may still wait for memory, for ten seconds."""
_SEARCH_SECONDS = 300.0
"""The seconds a guard that does not report its phase may search for a size that fits, 10 s or more a try."""
_RECORD_SECONDS = 2.0
"""The seconds a guard may take to record the outcome of a step."""
_DRAIN_SECONDS = 1.0
"""The seconds to wait for the rest of a report once its step has recovered."""


@dataclass
class _Report:
    """The lines held back: when they came, and the outcome so far."""

    first: float
    last: float
    looked: float = -_LOOK_SECONDS
    outcome: OutOfMemoryOutcome = OutOfMemoryOutcome.UNKNOWN
    recovering: float | None = None
    """The monotonic time when the guard was last seen recovering."""
    recovered: float | None = None
    """The monotonic time when the guard was found to have recovered."""


def _is_overdue(report: _Report, phase: Phase | None, now: float) -> bool:
    """True if a recovery can no longer be expected."""
    age = now - report.first
    if phase is Phase.RECOVERING:
        return False
    if report.outcome is OutOfMemoryOutcome.RECOVERING:
        return age > _SEARCH_SECONDS
    if report.recovering is not None:
        return now - report.recovering > _RECORD_SECONDS
    if phase in (None, Phase.OWN_CODE):
        return now - report.last > _QUIET_SECONDS or age > _LOUD_SECONDS
    return age > _STEP_SECONDS


class NativeReports:
    """The reports of one attempt.

    Args:
        file: where they are kept.
        memory: what the script records about its out-of-memory errors.
        tell: called once with the number of lines kept.
        read: called with each report that is kept.
        start_up: the start-up lines of earlier attempts; those of this one are added.
    """

    def __init__(
        self,
        file: OwnFile,
        memory: MemoryOutcome,
        tell: Callable[[int], None],
        read: Callable[[bytes], None],
        start_up: set[bytes],
    ) -> None:
        self._start_up = StartUpLines(start_up)
        self._held = HeldBack(self._start_up.is_repeated)
        self._held.holding = False
        self._own_file, self._memory, self._tell, self._read = file, memory, tell, read
        self._file: KeptFile | None = None
        self._told = self._ended = False
        self._began = self._partial_since = self._marked = time.monotonic()
        self._report: _Report | None = None

    def take(self, data: bytes) -> bytes:
        """Take what the script wrote to stderr; returns what to pass on now."""
        if self._ended:
            return data
        if b"\n" in data or not self._held.waits:
            self._partial_since = time.monotonic()
        return self._written(*self._held.take(data))

    def attend(self, phase: Phase | None, quiet: bool) -> bytes:
        """Called in every turn of the supervisor's loop; returns what to pass on now.

        Args:
            phase: the phase that the script has reported; None before it has: without a heartbeat there is no guard
                that could recover.
            quiet: whether stderr had nothing to read in this turn.
        """
        now = time.monotonic()
        waited = now - self._partial_since
        out = b""
        if waited > (_PARTIAL_SECONDS if quiet else _PARTIAL_SECONDS_IN_A_FLOOD):
            out = self._written(*self._held.stop_waiting())
        self._held.holding = phase is not None
        if phase not in (None, Phase.OWN_CODE) or now - self._began > _START_SECONDS:
            self._start_up.over = True
        return out + self._decided(phase, quiet, now)

    def end(self) -> bytes:
        """End with the script. Returns reports of unrecovered failures; later output is passed on."""
        self._ended = True
        rest = self._written(*self._held.stop_waiting())
        if self._report is not None:
            self._look(self._report, math.inf)
            if self._report.outcome is OutOfMemoryOutcome.RECOVERED:
                rest = self._kept() + rest
        if self._file is not None:
            self._file.close()
        return self._held.release() + rest

    def _decided(self, phase: Phase | None, quiet: bool, now: float) -> bytes:
        """Keep the report, show it, or wait; returns what to show."""
        if not self._held.lines:
            self._report = None
        report = self._report
        if report is None:
            if now - self._marked > (_MARK_SECONDS if quiet else _MARK_SECONDS_IN_A_FLOOD):
                self._mark()
            return b""
        self._look(report, now)
        if phase is Phase.RECOVERING:
            report.recovering = now
        if report.outcome is OutOfMemoryOutcome.RECOVERED:
            seen, report.recovered = report.recovered, report.recovered or now
            # Output from before the recovery may not have been read yet.
            if seen is not None and (quiet or now - seen > _DRAIN_SECONDS):
                return self._kept()
        elif report.outcome is OutOfMemoryOutcome.LEFT or _is_overdue(report, phase, now):
            return self._shown()
        return b""

    def _look(self, report: _Report, now: float) -> None:
        """Look at what the script has recorded, ten times a second at most."""
        if now - report.looked < _LOOK_SECONDS:
            return
        report.looked = now
        try:
            report.outcome = self._memory.now()
        except Exception:
            report.outcome = OutOfMemoryOutcome.LEFT  # an error in oomph must not hide why the script fails

    def _written(self, out: bytes, held: bytes) -> bytes:
        """Append newly held lines to the file; returns the rest."""
        if held:
            self._file = self._file or KeptFile(self._own_file, KEPT_BYTES)
            self._file.feed(held)
            now = time.monotonic()
            self._report = self._report or _Report(now, now)
            self._report.last = now
        return out

    def _kept(self) -> bytes:
        """Leave the report in the file; returns it instead if that could not be written."""
        if self._file is None or not self._file.is_written:
            return self._shown()
        lines, report = self._held.lines, self._held.report
        self._held.drop()
        self._mark()
        if not self._told:
            self._told = True
            self._tell(lines)
        self._read(report)
        return b""

    def _shown(self) -> bytes:
        self._mark()
        return self._held.release()

    def _mark(self) -> None:
        """Skip the events so far: they are not about the next report."""
        self._report, self._marked = None, time.monotonic()
        self._memory.begin()


# -- lines that TensorFlow prints as it starts ------------------------------------------------------------------------

_WITHOUT_HEAD = (b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ")
_HARMLESS = re.compile(rb"Unable to register cu(?:BLAS|DNN|FFT) factory: Attempting to register factory for plugin ")
"""A line that every import of TensorFlow 2.14 to 2.20 with CUDA writes with severity E."""
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{1,16}\b")
_MOST_SEEN = 5000
_LONGEST = 4096


class StartUpLines:
    """Recognises lines that an earlier attempt has shown while it started.

    Errors are shown, and lines with another figure, which may say why this attempt fails.

    Args:
        seen: the lines of earlier attempts. Those of this attempt are added.
    """

    def __init__(self, seen: set[bytes]) -> None:
        self._seen, self._before = seen, frozenset(seen)
        self.over = False
        """True once the script has started: then every line is shown."""

    def is_repeated(self, line: bytes) -> bool:
        """True if an earlier attempt showed this line while starting."""
        text = None if self.over or len(line) > _LONGEST else _comparable(line)
        if text is None:
            return False
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(text)
        return text in self._before


def _comparable(line: bytes) -> bytes | None:
    """The line without its time, thread and addresses; None if it is always shown."""
    head = head_of(line)
    if head is None:
        return line if line.startswith(_WITHOUT_HEAD) else None
    text = line[head.end :]
    if head.severity not in b"IW" and not _HARMLESS.match(text):
        return None
    return b"%b %b: %b" % (head.severity, head.file, _ADDRESS.sub(b"0x", text))
