"""Chronicle: the journal of a run as the supervisor writes and reads it.

A run without a directory keeps the supervisor's own events in memory: its summary is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import oomph
from oomph.journal import Event, Journal, read_journal
from oomph.recovery.hang.limits import Hang
from oomph.recovery.policy import decisions
from oomph.recovery.policy.cause import Named
from oomph.recovery.policy.examination import last
from oomph.recovery.policy.ladder import Conditions
from oomph.recovery.policy.policy import Action, Ending, Ledger, Restart, is_crash
from oomph.recovery.protocol.progress import Progress, read_progress
from oomph.recovery.supervisor.attempt import Ended
from oomph.recovery.supervisor.surroundings import Surroundings

_MOST_KERNEL_LINES = 20
_LONGEST_START_SECONDS = 10.0
"""Python has loaded oomph by then, from a slow disk too."""
_LONGEST_GAP_SECONDS = 7 * 86400.0
"""No training is silent for longer than a week: the clock was set forward."""


@dataclass(frozen=True)
class Judged:
    """The end of an attempt: what was seen, what it was called, and what was decided upon it."""

    ended: Ended
    names: tuple[Named, ...]
    """The faults found, the likeliest first."""
    ending: Ending
    conditions: Conditions
    action: Action
    oom_kills: int | None
    kernel_lines: Sequence[str]


class Chronicle:
    """The events of one run.

    Args:
        run_dir: None for a run without a directory.
        attempts: how many the run has had already.
    """

    def __init__(self, run_dir: Path | None, attempts: int) -> None:
        self._run_dir, self.attempt = run_dir, attempts
        self._journal = Journal(None, 0, "supervisor")
        self._own: list[Event] = []

    def begin_attempt(self, command: Sequence[str], python: str, machine: Surroundings) -> None:
        """The next attempt is about to start."""
        self.attempt += 1
        self._journal = Journal(self._run_dir, self.attempt, "supervisor")
        if not self._own:
            self.write("run-started", oomph=oomph.__version__)
            if machine.snapshot is not None:
                self._journal.write("machine", snapshot=machine.snapshot, repairs=machine.changes)
        self.write("attempt-started", python=python, command=list(command))

    def write(self, name: str, **data: Any) -> None:
        """Append an event of the supervisor's."""
        self._own.append(self._journal.write(name, **data))

    def close_attempt(self, exit_code: int | None = None) -> None:
        """The attempt is over; with an exit code the run is, too."""
        if exit_code is not None:
            self.write("run-ended", exit_code=exit_code)
        self._journal.close()

    def write_hang(self, hang: Hang) -> None:
        """Written down before anything is ended: what follows may take its time, or us with it."""
        self.write(
            "hang",
            phase=hang.phase.name.lower().replace("_", "-"),
            fit=hang.fit,
            seconds=round(hang.seconds, 1),
            limit_seconds=round(hang.limit_seconds, 1),
            line=hang.line,
            stacks=hang.stacks,
        )

    def write_end(self, judged: Judged, peak_rss_bytes: int, allowed: frozenset[str], ledger: Ledger) -> None:
        """How the attempt ended, what that was called, and what was decided."""
        ending, names = judged.ending, judged.names
        self.write(
            "attempt-ended",
            returncode=judged.ended.returncode,
            seconds=round(judged.ended.seconds, 3),
            steps=ending.steps,
            saved=ending.saved,
            oom_kills=judged.oom_kills,
            peak_rss_bytes=peak_rss_bytes,
        )
        if names or (is_crash(ending.returncode) and not ending.stopped):
            also = [{"fault": named.name, "code": named.code} for named in names[1:]]
            code = names[0].code if names else ""
            self.write("diagnosed", fault=ending.fault, code=code, also=also)
        if judged.kernel_lines:
            self.write("kernel-log", lines=judged.kernel_lines[-_MOST_KERNEL_LINES:])
        taken_upon = decisions.facts(ending, judged.conditions, allowed)
        self.write("decided", **decisions.in_words(judged.action), ledger=ledger.as_data(), **taken_upon)
        self.close_attempt(None if isinstance(judged.action, Restart) else judged.action.exit_code)

    def close_lost_attempt(self) -> Ledger:
        """On --resume: end the attempt that a killed supervisor could not see the end of; returns the ledger."""
        if self._run_dir is None or self.attempt == 0:
            return Ledger()
        events = read_journal(self._run_dir, self.attempt)
        if last(events, "attempt-ended") is None:
            progress = self.progress()
            journal = Journal(self._run_dir, self.attempt, "supervisor")
            journal.write(
                "attempt-ended",
                returncode=None,
                seconds=round(_lasted(events), 3),
                steps=0 if progress is None else progress.steps,
                saved=0 if progress is None else progress.saved,
                oom_kills=None,
            )
            journal.close()
        return decisions.ledger_of(read_journal(self._run_dir))

    def machine_before(self) -> Mapping[str, Any] | None:
        """The snapshot of the machine that the run was on last; None when there is none."""
        found = None if self._run_dir is None or not self.attempt else last(read_journal(self._run_dir), "machine")
        return None if found is None else found.data.get("snapshot")

    def progress(self) -> Progress | None:
        """Where this attempt got to; None when it has not committed a step."""
        progress = None if self._run_dir is None else read_progress(self._run_dir)
        return progress if progress is not None and progress.attempt == self.attempt else None

    def went_further(self) -> bool:
        """Whether an attempt before this one had come to a training."""
        before = [event for event in self.events() if event.attempt < self.attempt]
        return any(event.name in ("fit-started", "loop-seen") or event.data.get("steps") for event in before)

    def events(self) -> Sequence[Event]:
        """Every event of the run; of a journal that cannot be written, the supervisor's own beside what is there."""
        found = [] if self._run_dir is None else read_journal(self._run_dir)
        return found if any(event.attempt == self.attempt for event in found) else [*found, *self._own]

    @property
    def is_silent(self) -> bool:
        """Whether what happens in this attempt cannot be written down."""
        return self._journal.is_silent

    def own_events(self) -> Sequence[Event]:
        """The supervisor's, of this very call of `oomph run`."""
        return self._own

    def of_the_script(self) -> list[Event]:
        """What the script's processes have written in this attempt."""
        if self._run_dir is None:
            return []
        return [event for event in read_journal(self._run_dir, self.attempt) if event.role != "supervisor"]

    def loops(self) -> list[tuple[str, int, int]]:
        """The lines of the training loops that the script has told of."""
        seen = [event.data.get("loops", ()) for event in self.of_the_script() if "loops" in event.data]
        return [(str(file), int(first), int(final)) for loops in seen for file, first, final in loops]

    def guarded(self) -> bool:
        """Whether a Python of the script has loaded oomph, as far as can be told."""
        return self._run_dir is None or any(self._run_dir.glob("owner-*")) or self._ended_at_once()

    def _ended_at_once(self) -> bool:
        """Whether somebody had the script end before its Python need have come to load anything."""
        ended, decided = last(self._own, "attempt-ended"), last(self._own, "decided")
        if ended is None or decided is None or ended.data["seconds"] > _LONGEST_START_SECONDS:
            return False
        return any(decided.data["ending"].get(how) for how in ("stopped", "interrupted", "called_off"))


def _lasted(events: Sequence[Event]) -> float:
    """How long an attempt was seen to last, by clocks that may have been set meanwhile: then by what lies between."""
    times = [event.time for event in events]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return sum(gap for gap in gaps if 0 < gap < _LONGEST_GAP_SECONDS)
