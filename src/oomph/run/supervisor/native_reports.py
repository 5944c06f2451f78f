"""Keeps TensorFlow's reports of failed allocations off the terminal while the guard recovers. Runs in the supervisor.

A report is saved in `stderr/<attempt>-memory.log`. It is shown only if the step does not recover, and then before
anything that the script prints about the error. The outcome is read from the journals of the current attempt.
"""

from __future__ import annotations

import enum
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from oomph.files.opening import OwnFile, open_regular
from oomph.journal.events import GaveUp, Oom, ProbeFailed, Recovered, RestartRequested
from oomph.journal.journal import Event
from oomph.process.held_back import HeldBack, head_of
from oomph.process.stderr import KeptFile
from oomph.protocol.progress import Phase
from oomph.terminal.amounts import counted

_MOST_BYTES = 4 << 20


def kept_in_words(lines: int, where: str) -> str:
    """Say where a report is that was not shown, and how long it is."""
    return f"TensorFlow's report of the failed allocation ({counted(lines, 'line')}) is in {where}"


class OutOfMemoryOutcome(enum.Enum):
    """The outcome of an out-of-memory error."""

    UNKNOWN = enum.auto()
    """No outcome has been recorded, since no guard has reacted yet."""
    RECOVERING = enum.auto()
    RECOVERED = enum.auto()
    """The process recovered, or requested a new process that will."""
    LEFT = enum.auto()
    """The error was left to the script, because the guard gave up or there is none."""


class MemoryOutcome:
    """Follows the journals of the script's processes, reading only newly appended events.

    Args:
        run_dir: the run directory.
        attempt: the number of the attempt.
    """

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._folder, self._pattern = run_dir / "journal", f"{attempt}-*.jsonl"
        self._read: dict[Path, int] = {}
        self._latest: dict[Path, OutOfMemoryOutcome] = {}

    def begin(self) -> None:
        """Skip the events recorded so far, which belong to earlier errors."""
        self._latest = {}
        self._read = {path: _size(path) for path in self._journals()}

    def now(self) -> OutOfMemoryOutcome:
        """Return the outcome since `begin`.

        Reports don't identify the process, so every process that ran out of memory must have recovered.
        """
        for path in self._journals():
            for event in self._appended(path):
                self._latest[path] = outcome_of(event) or self._latest.get(path, OutOfMemoryOutcome.UNKNOWN)
        return of_all(self._latest.values())

    def _journals(self) -> list[Path]:
        try:
            found = list(self._folder.glob(self._pattern))
        except OSError:
            return []
        return [path for path in found if not path.name.endswith("-supervisor.jsonl")]

    def _appended(self, path: Path) -> list[Event]:
        begin = self._read.get(path, 0)
        try:
            with open_regular(path) as file:
                file.seek(begin)
                data = file.read(_MOST_BYTES)
        except OSError:
            return []  # removed, or not readable by us
        end = len(data) if len(data) == _MOST_BYTES else data.rfind(b"\n") + 1
        self._read[path] = begin + end
        return [event for line in data[:end].splitlines() for event in _events(line)]


def outcome_of(event: Event) -> OutOfMemoryOutcome | None:
    """Return the outcome that an event records for its process, or None if it doesn't record one."""
    match event.fact:
        case Oom(phase=phase):
            return OutOfMemoryOutcome.LEFT if phase == "elsewhere" else OutOfMemoryOutcome.RECOVERING
        case RestartRequested(fault="device-oom") | Recovered() | ProbeFailed():
            return OutOfMemoryOutcome.RECOVERED
        case RestartRequested() | GaveUp():
            return OutOfMemoryOutcome.LEFT
    return None


def of_all(outcomes: Iterable[OutOfMemoryOutcome]) -> OutOfMemoryOutcome:
    """Return the worst of several processes' outcomes."""
    found = set(outcomes)
    order = (OutOfMemoryOutcome.LEFT, OutOfMemoryOutcome.RECOVERING, OutOfMemoryOutcome.RECOVERED)
    return next((outcome for outcome in order if outcome in found), OutOfMemoryOutcome.UNKNOWN)


def _events(line: bytes) -> list[Event]:
    try:
        return [Event.from_json(line.decode(errors="replace"))]
    except (ValueError, RecursionError):
        return []  # an incomplete line from a killed process, or a line in a different format


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


KEPT_BYTES = 16 << 20
_START_SECONDS = 60.0
"""The time, in seconds, within which a script that has not reported a fit may print TensorFlow's start-up lines."""
_PARTIAL_SECONDS, _PARTIAL_SECONDS_IN_A_FLOOD = 0.05, 0.5
"""The time to wait for the rest of a partial line, in seconds: when the script is quiet, and while it keeps writing."""
_LOOK_SECONDS = 0.1
_MARK_SECONDS, _MARK_SECONDS_IN_A_FLOOD = 1.0, 5.0
"""The seconds between marks at the end of the journals. Only events after the last mark count for the next report."""
_QUIET_SECONDS, _LOUD_SECONDS = 0.5, 2.0
"""The time a guard may take to react to an error, in seconds, from the last line of its report and from the first."""
_STEP_SECONDS = 12.0
"""The same for an error during training, where the step's other operations may still wait ten seconds for memory."""
_SEARCH_SECONDS = 300.0
"""The time a guard without phase reports may search for a size that fits, in seconds, at 10 s or more per try."""
_RECORD_SECONDS = 2.0
"""The time a guard may take to record the outcome of a step, in seconds."""
_DRAIN_SECONDS = 1.0
"""The time to wait for the rest of a report, in seconds, once its step has recovered."""


@dataclass
class _Report:
    """The times at which the lines of a report arrived, and its outcome so far."""

    first: float
    last: float
    looked: float = -_LOOK_SECONDS
    outcome: OutOfMemoryOutcome = OutOfMemoryOutcome.UNKNOWN
    recovering: float | None = None
    """The monotonic time when the guard was last seen recovering."""
    recovered: float | None = None
    """The monotonic time when the guard was found to have recovered."""


def _is_overdue(report: _Report, phase: Phase | None, now: float) -> bool:
    """True if it is too late to expect a recovery."""
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
    """Holds back TensorFlow's reports during one attempt.

    Args:
        file: the file that stores the reports.
        memory: the outcomes that the script records for its out-of-memory errors.
        tell: called once, with the number of lines that were stored instead of shown.
        read: called with each report that is stored instead of shown.
        start_up: the start-up lines of earlier attempts, to which this attempt's are added.
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
        """Process what the script wrote to stderr, and return the part to pass on now."""
        if self._ended:
            return data
        if b"\n" in data or not self._held.waits:
            self._partial_since = time.monotonic()
        return self._written(*self._held.take(data))

    def attend(self, phase: Phase | None, quiet: bool) -> bytes:
        """Return the output to pass on now. Called in every iteration of the supervisor's loop.

        Args:
            phase: the phase that the script last reported, or None if it hasn't reported any. Without heartbeats, there
                is no guard that could recover.
            quiet: whether there was nothing to read from stderr in this iteration.
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
        """Finish once the script has exited, and return the reports of failures that were not recovered.

        Any later output is passed on unchanged.
        """
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
        """Decide whether to store the report, show it or wait, and return the output to show."""
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
            # Output that was written before the recovery may not have been read yet.
            if seen is not None and (quiet or now - seen > _DRAIN_SECONDS):
                return self._kept()
        elif report.outcome is OutOfMemoryOutcome.LEFT or _is_overdue(report, phase, now):
            return self._shown()
        return b""

    def _look(self, report: _Report, now: float) -> None:
        """Check what the script has recorded, at most ten times per second."""
        if now - report.looked < _LOOK_SECONDS:
            return
        report.looked = now
        try:
            report.outcome = self._memory.now()
        except Exception:
            report.outcome = OutOfMemoryOutcome.LEFT  # an error in oomph must not hide why the script fails

    def _written(self, out: bytes, held: bytes) -> bytes:
        """Append newly held lines to the file, and return the rest of the output."""
        if held:
            self._file = self._file or KeptFile(self._own_file, KEPT_BYTES)
            self._file.feed(held)
            now = time.monotonic()
            self._report = self._report or _Report(now, now)
            self._report.last = now
        return out

    def _kept(self) -> bytes:
        """Leave the report in the file. Return it instead if it could not be written there."""
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
        """Skip the events so far, which do not belong to the next report."""
        self._report, self._marked = None, time.monotonic()
        self._memory.begin()


# -- lines that TensorFlow prints as it starts ------------------------------------------------------------------------

_WITHOUT_HEAD = (b"WARNING: All log messages before absl::InitializeLog", b"To enable the following instructions: ")
_HARMLESS = re.compile(rb"Unable to register cu(?:BLAS|DNN|FFT) factory: Attempting to register factory for plugin ")
"""Matches a line that TensorFlow 2.14 to 2.20 with CUDA always prints on import, with severity E."""
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{1,16}\b")
_MOST_SEEN = 5000
_LONGEST = 4096


class StartUpLines:
    """Recognises lines that an earlier attempt printed while starting.

    Errors are always shown, and so are lines with a different number, which may say why this attempt fails.

    Args:
        seen: the lines of earlier attempts, to which this attempt's are added.
    """

    def __init__(self, seen: set[bytes]) -> None:
        self._seen, self._before = seen, frozenset(seen)
        self.over = False
        """True once start-up is over, after which every line is shown."""

    def is_repeated(self, line: bytes) -> bool:
        """True if an earlier attempt printed this line while starting."""
        text = None if self.over or len(line) > _LONGEST else _comparable(line)
        if text is None:
            return False
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(text)
        return text in self._before


def _comparable(line: bytes) -> bytes | None:
    """Return the line without its time, thread and addresses, or None if it must always be shown."""
    head = head_of(line)
    if head is None:
        return line if line.startswith(_WITHOUT_HEAD) else None
    text = line[head.end :]
    if head.severity not in b"IW" and not _HARMLESS.match(text):
        return None
    return b"%b %b: %b" % (head.severity, head.file, _ADDRESS.sub(b"0x", text))
