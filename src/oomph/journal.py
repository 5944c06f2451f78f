"""Event and Journal: the append-only record of a run, from which every decision can be recomputed.

One folder per run; one file per writer, `<attempt>-<rank>-<role>.jsonl`, so that no two processes ever
write to the same file. A line is one event. Lines are written with a single `write` each: a process that
is killed leaves at most one half line at the end of its file, which the reader drops.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Event:
    """One thing that happened: its name, its place in the order of its writer, and its facts."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0
    rank: int = 0
    role: str = ""
    sequence: int = 0
    time: float = 0.0

    def to_json(self) -> str:
        """The event as one line of JSON, without the newline."""
        document = {"schema": SCHEMA, "event": self.name, "attempt": self.attempt, "rank": self.rank}
        document |= {"role": self.role, "sequence": self.sequence, "time": self.time, "data": self.data}
        return json.dumps(document, default=str, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """The event of one journal line; raises ValueError when the line is not one."""
        document = json.loads(line)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError("not an event of this schema")
        return cls(
            name=str(document["event"]),
            data=dict(document["data"]),
            attempt=int(document["attempt"]),
            rank=int(document["rank"]),
            role=str(document["role"]),
            sequence=int(document["sequence"]),
            time=float(document["time"]),
        )


class Journal:
    """The writing end of one journal file. A journal that can not be written falls silent: fail open."""

    def __init__(self, run_dir: Path | None, attempt: int, role: str, rank: int = 0) -> None:
        self.attempt, self.role, self.rank = attempt, role, rank
        self._sequence = 0
        self._fd: int | None = None
        if run_dir is not None:
            try:
                folder = run_dir / "journal"
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"{attempt}-{rank}-{role}.jsonl"
                self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError:
                self._fd = None

    def write(self, name: str, /, **data: Any) -> Event:
        """Append one event and return it."""
        self._sequence += 1
        event = Event(name, data, self.attempt, self.rank, self.role, self._sequence, time.time())
        if self._fd is not None:
            try:
                os.write(self._fd, event.to_json().encode() + b"\n")
            except OSError:
                pass  # a full disk must not end the training
        return event

    def close(self) -> None:
        """Close the file; later events are dropped."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read_journal(run_dir: Path) -> list[Event]:
    """Every readable event of a run, ordered by (attempt, time, role, sequence)."""
    events = [event for path in sorted((run_dir / "journal").glob("*.jsonl")) for event in _read_file(path)]
    return sorted(events, key=lambda e: (e.attempt, e.time, e.role, e.sequence))


def _read_file(path: Path) -> Iterator[Event]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield Event.from_json(line)
            except (ValueError, KeyError, TypeError):
                continue  # the half line of a killed writer, or a line of another schema
