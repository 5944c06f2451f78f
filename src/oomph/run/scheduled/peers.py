"""Records how the workers of a gang ended, each in a file of its own that the others read."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from oomph.files.opening import read_own, replace_own
from oomph.run.policy.first_failure import WorkerOutcome, first_cause
from oomph.run.scheduled.allocation import Allocation
from oomph.run.scheduled.gathering import FOLDER, SCHEMA, Roster, parsed
from oomph.terminal.message import shown_line

_LOOK_SECONDS = 2.0
_POLL_SECONDS = 0.2
_CAUSE_SECONDS, _LAST_SECONDS = 10.0, 60.0
"""The time to wait for the failure behind a consequence, and for the others once this worker has finished."""
_MOST_BYTES = 1 << 16
_PREFIX = "ended-"


class Peers:
    """The workers of a gang in one start, as one of them sees them through the run directory that all share."""

    def __init__(self, path: Path, mine: Allocation, roster: Roster) -> None:
        self.path, self.rank, self.workers, self.host = path, mine.rank, mine.workers, mine.host
        self.addresses = () if mine.addresses else roster.addresses
        """The address of each worker by rank, or () if TF_CONFIG already has them."""
        self.call = roster.call
        """Identifies the start."""
        self._looked_at = 0.0

    def announce(self, outcome: WorkerOutcome) -> None:
        """Let the others know how this worker has ended. If that fails, they notice it by themselves."""
        document = {"schema": SCHEMA, "call": self.call, **outcome._asdict()}
        try:
            replace_own(self.path, _name(self.rank), json.dumps(document).encode())
        except OSError:
            pass

    def failure(self) -> WorkerOutcome | None:
        """Return how another worker has failed, or None. May be called often, and looks every two seconds."""
        if time.monotonic() < self._looked_at + _LOOK_SECONDS:
            return None
        self._looked_at = time.monotonic()
        return next((each for each in self.others() if each.exit_code != 0 and not each.was_asked), None)

    def others(self) -> list[WorkerOutcome]:
        """Return the outcomes of the other workers that have ended, by rank."""
        try:
            names = set(os.listdir(self.path / FOLDER))
        except OSError:
            return []
        ranks = [rank for rank in range(self.workers) if rank != self.rank and f"{_PREFIX}{rank}.json" in names]
        return [found for rank in ranks if (found := self._read(rank)) is not None]

    def wait(self, own: WorkerOutcome) -> list[WorkerOutcome]:
        """Wait for what decides over this worker's end, for a while at most, and return how the others have ended.

        One that has finished waits for all, one that has failed only because of another waits for that one.
        """
        seconds = _LAST_SECONDS if own.exit_code == 0 else _CAUSE_SECONDS if own.is_consequence else 0.0
        until = time.monotonic() + seconds
        while True:
            found = self.others()
            is_enough = first_cause(found) is not None or len(found) == self.workers - 1
            if is_enough or time.monotonic() >= until:
                return found
            time.sleep(_POLL_SECONDS)

    def _read(self, rank: int) -> WorkerOutcome | None:
        try:
            content = read_own(self.path, _name(rank), _MOST_BYTES)
            if json.loads(content).get("call") != self.call:
                return None
            found = parsed(WorkerOutcome, content)
            return found._replace(rank=rank, host=shown_line(found.host), fault=shown_line(found.fault))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None


def _name(rank: int) -> str:
    return f"{FOLDER}/{_PREFIX}{rank}.json"
