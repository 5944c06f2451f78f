"""The sources of a training's findings: its own sampler, or the run that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from oomph.journal.events import FindingMade
from oomph.journal.journal import facts, read_journal
from oomph.monitor.changes import finding_of
from oomph.monitor.finding import Finding


class Findings(Protocol):
    """The interface of a source; that of `SamplerProcess`."""

    problem: str

    def findings(self) -> Iterable[Finding]:
        """Return the findings since the last call."""

    def close(self) -> None:
        """End the source."""


class OfTheRun:
    """The findings of `oomph run`'s monitor, from the run's journal, without earlier ones."""

    problem = ""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._state: object = None
        self._taken = 0
        self._taken = len(self._events())

    def findings(self) -> list[Finding]:
        """Return the findings since the last call."""
        events = self._events()
        new, self._taken = events[self._taken :], max(self._taken, len(events))
        return [finding for event in new if (finding := _finding(event)) is not None]

    def close(self) -> None:
        """Do nothing."""

    def _events(self) -> list[FindingMade]:
        state = [_state(path) for path in sorted((self._run_dir / "journal").glob("*-supervisor.jsonl"))]
        if state == self._state:
            return []  # nothing has been written since
        self._state = state
        return [each for each in facts(read_journal(self._run_dir), FindingMade) if not each.again]


def _finding(made: FindingMade) -> Finding | None:
    return finding_of({**dict(made.items()), "evidence": dict(made.figures)})


def _state(path: Path) -> tuple[str, int]:
    try:
        return path.name, path.stat().st_size
    except OSError:
        return path.name, 0
