"""Reads the findings that the script's own processes make, from the journal of the attempt."""

from __future__ import annotations

import time
from pathlib import Path

from oomph.journal.events import FindingMade
from oomph.journal.journal import Event
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.finding import Finding, finding_recorded

_LOOK_SECONDS = 2.0
_OWN_ROLE = "supervisor"


class ScriptFindings:
    """The findings of one attempt, apart from those that the supervisor itself has recorded."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._journal = JournalReader(run_dir, attempt, newest=True)
        self._seen: set[tuple[int, str, int]] = set()
        self._due = 0.0

    def new(self, at_once: bool = False) -> list[Finding]:
        """Return the findings made since the last call. Looks every two seconds, or `at_once`."""
        if time.monotonic() < self._due and not at_once:
            return []
        self._due = time.monotonic() + _LOOK_SECONDS
        return [finding for event in self._journal.read() if (finding := self._if_new(event)) is not None]

    def _if_new(self, event: Event) -> Finding | None:
        made, place = event.fact, (event.rank, event.role, event.sequence)
        if not isinstance(made, FindingMade) or event.role == _OWN_ROLE or made.again or place in self._seen:
            return None
        self._seen.add(place)
        return finding_recorded(made)
