"""Reads the outcomes of out-of-memory errors from the journals of a running attempt."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from pathlib import Path

from oomph.files.opening import open_regular
from oomph.journal.events import GaveUp, Oom, Recovered, RestartRequested
from oomph.journal.journal import Event

_MOST_BYTES = 4 << 20


class OutOfMemoryOutcome(enum.Enum):
    """The outcome of an out-of-memory error."""

    UNKNOWN = enum.auto()
    """No outcome is recorded: no guard has reacted yet."""
    RECOVERING = enum.auto()
    RECOVERED = enum.auto()
    """Recovered in the process, or by its request for a new one."""
    LEFT = enum.auto()
    """Left to the script: the guard gave up, or there is none."""


class MemoryOutcome:
    """Follows the journals of the script's processes, and reads only what they append.

    Args:
        run_dir: the run directory.
        attempt: the number of the attempt.
    """

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._folder, self._pattern = run_dir / "journal", f"{attempt}-*.jsonl"
        self._read: dict[Path, int] = {}
        self._latest: dict[Path, OutOfMemoryOutcome] = {}

    def begin(self) -> None:
        """Skip the events recorded until now, which are about earlier errors."""
        self._latest = {}
        self._read = {path: _size(path) for path in self._journals()}

    def now(self) -> OutOfMemoryOutcome:
        """The outcome since `begin`. Reports name no process, so all that ran out must have recovered."""
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
            return []  # removed, or not readable for us
        end = len(data) if len(data) == _MOST_BYTES else data.rfind(b"\n") + 1
        self._read[path] = begin + end
        return [event for line in data[:end].splitlines() for event in _events(line)]


def outcome_of(event: Event) -> OutOfMemoryOutcome | None:
    """The outcome that an event records for its process; None if it records none."""
    match event.fact:
        case Oom(phase=phase):
            return OutOfMemoryOutcome.LEFT if phase == "elsewhere" else OutOfMemoryOutcome.RECOVERING
        case RestartRequested(fault="device-oom") | Recovered():
            return OutOfMemoryOutcome.RECOVERED
        case RestartRequested() | GaveUp():
            return OutOfMemoryOutcome.LEFT
    return None


def of_all(outcomes: Iterable[OutOfMemoryOutcome]) -> OutOfMemoryOutcome:
    """The outcome of several processes: the worst among them."""
    found = set(outcomes)
    order = (OutOfMemoryOutcome.LEFT, OutOfMemoryOutcome.RECOVERING, OutOfMemoryOutcome.RECOVERED)
    return next((outcome for outcome in order if outcome in found), OutOfMemoryOutcome.UNKNOWN)


def _events(line: bytes) -> list[Event]:
    try:
        return [Event.from_json(line.decode(errors="replace"))]
    except (ValueError, RecursionError):
        return []  # the half line of a killed writer, or a line of another schema


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
