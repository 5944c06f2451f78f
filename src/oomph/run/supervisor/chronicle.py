"""Writes and reads a run's journal for the supervisor.

For a run without a directory, the supervisor's own events are kept in memory, and the summary is built from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import oomph
from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    Decided,
    Diagnosed,
    FitStarted,
    Hung,
    KernelLogRead,
    LoopSeen,
    MachineSeen,
    RunEnded,
    RunStarted,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import Event, Journal, elapsed, last, read_journal
from oomph.process import process_identity
from oomph.protocol.handover import Guarding
from oomph.run.hang.limits import Hang
from oomph.run.policy import decisions
from oomph.run.policy.decide import Action, Ending, Ledger, Restart, is_crash
from oomph.run.policy.examination import Named
from oomph.run.policy.ladder import Change, Conditions
from oomph.run.supervisor.attempt import Ended
from oomph.run.supervisor.script_record import ScriptRecord, prepare
from oomph.run.supervisor.settings import MachineAtStart

_MOST_KERNEL_LINES = 20
_LONGEST_START_SECONDS = 10.0
"""The time, in seconds, by which Python has certainly loaded oomph, even from a slow disk."""


@dataclass(frozen=True)
class Judged:
    """The ending of an attempt: the observations, the diagnosis, and the decision."""

    ended: Ended
    names: tuple[Named, ...]
    """The faults found, most likely first."""
    ending: Ending
    conditions: Conditions
    action: Action
    oom_kills: int | None
    kernel_lines: Sequence[str]


class Chronicle:
    """Writes and reads the events of one run.

    Args:
        run_dir: the run directory, or None if the run has none.
        attempts: the number of attempts that the run has had so far.
    """

    def __init__(self, run_dir: Path | None, attempts: int) -> None:
        self._run_dir, self.attempt = run_dir, attempts
        self._journal = Journal(None, 0, "supervisor")
        self._own: list[Event] = []
        self.script = ScriptRecord(run_dir, attempts)
        """The script's record of this attempt; of several workers, that of the first."""

    def begin_attempt(
        self,
        command: Sequence[str],
        python: str,
        machine: MachineAtStart,
        guarding: Guarding | None = None,
        changes: Sequence[Change] = (),
    ) -> None:
        """Open the journal of the next attempt, which starts with these changes."""
        self.attempt += 1
        if self._run_dir is not None:
            prepare(self._run_dir, self.attempt)
        self._journal = Journal(self._run_dir, self.attempt, "supervisor")
        if not self._own:
            self.write(_run_started(guarding or Guarding()))
            if machine.snapshot is not None:
                self._journal.write(MachineSeen(snapshot=machine.snapshot, repairs=machine.changes))
        self.script = ScriptRecord(self._run_dir, self.attempt)
        excluded = [change.value for change in changes if change.name == "exclude-gpu"]
        self.write(
            AttemptStarted(
                python=python,
                command=list(command),
                newest_checkpoint=self.script.newest_checkpoint,
                host=process_identity.host(),
                gpus=[gpu for gpu in machine.gpus if gpu["uuid"] not in excluded],
            )
        )

    def write(self, fact: Fact) -> None:
        """Append an event to the supervisor's journal."""
        self._own.append(self._journal.write(fact))

    def close_attempt(self, exit_code: int | None = None) -> None:
        """Close the attempt's journal. If there is an exit code, record the end of the run first."""
        if exit_code is not None:
            self.write(RunEnded(exit_code=exit_code))
        self._journal.close()

    def write_hang(self, hang: Hang, worker: int | None = None) -> None:
        """Record a hang. Call this before ending the script, which may take a while, or kill the supervisor as well."""
        self.write(
            Hung(
                worker=worker,
                phase=hang.phase.name.lower().replace("_", "-"),
                fit=hang.fit,
                seconds=round(hang.seconds, 1),
                limit_seconds=round(hang.limit_seconds, 1),
                line=hang.line,
                stacks=hang.stacks,
            )
        )

    def write_end(
        self, judged: Judged, peak_rss_bytes: int, allowed: frozenset[str], ledger: Ledger, action: Action
    ) -> None:
        """Record how the attempt ended, its diagnosis, and the decision.

        The action differs from the decision if a scheduler carries out the restart: the next start then finds in the
        journal what was decided.
        """
        self.write_ending(judged, peak_rss_bytes)
        taken_upon = decisions.facts(judged.ending, judged.conditions, allowed)
        self.write(Decided(**decisions.in_words(judged.action), ledger=ledger.as_data(), **taken_upon))
        self.close_attempt(None if isinstance(action, Restart) else action.exit_code)

    def write_ending(self, judged: Judged, peak_rss_bytes: int) -> None:
        """Record how the attempt ended, and its diagnosis."""
        ending, names = judged.ending, judged.names
        self.write(
            AttemptEnded(
                returncode=judged.ended.returncode,
                seconds=round(judged.ended.seconds, 3),
                steps=ending.steps,
                saved=ending.saved,
                oom_kills=judged.oom_kills,
                peak_rss_bytes=peak_rss_bytes,
                **self.script.measured(),
            )
        )
        if names or (is_crash(ending.returncode) and not ending.stopped):
            also = [{"fault": named.name, "code": named.code} for named in names[1:]]
            code = names[0].code if names else ""
            self.write(Diagnosed(fault=ending.fault, code=code, also=also))
        if judged.kernel_lines:
            self.write(KernelLogRead(lines=judged.kernel_lines[-_MOST_KERNEL_LINES:]))

    def close_lost_attempt(self) -> Ledger:
        """Record the end of an attempt whose supervisor was killed, for `--resume`, and return the ledger."""
        if self._run_dir is None or self.attempt == 0:
            return Ledger()
        events = read_journal(self._run_dir, self.attempt)
        if last(events, AttemptEnded) is None:
            started = last(events, AttemptStarted)
            newest = None if started is None else started.newest_checkpoint
            self.script = ScriptRecord(self._run_dir, self.attempt, newest)
            progress = self.script.progress()
            journal = Journal(self._run_dir, self.attempt, "supervisor")
            journal.write(
                AttemptEnded(
                    returncode=None,
                    seconds=round(_lasted(events), 3),
                    steps=0 if progress is None else progress.steps,
                    saved=0 if progress is None else progress.saved,
                    oom_kills=None,
                    **self.script.measured(),
                )
            )
            journal.close()
        return decisions.ledger_of(read_journal(self._run_dir))

    def machine_before(self) -> Mapping[str, Any] | None:
        """Return the latest snapshot of the machine from earlier attempts, or None if there is none."""
        found = None if self._run_dir is None or not self.attempt else last(read_journal(self._run_dir), MachineSeen)
        return None if found is None else found.snapshot

    def went_further(self) -> bool:
        """True if an earlier attempt got as far as training."""
        before = [event for event in self.events() if event.attempt < self.attempt]
        return any(
            isinstance(event.fact, (FitStarted, LoopSeen)) or getattr(event.fact, "steps", 0) for event in before
        )

    def events(self) -> Sequence[Event]:
        """Return every event of the run. Use the supervisor's own events from memory if they could not be written."""
        found = [] if self._run_dir is None else read_journal(self._run_dir)
        return found if any(event.attempt == self.attempt for event in found) else [*found, *self._own]

    @property
    def is_silent(self) -> bool:
        """True if this attempt's journal cannot be written."""
        return self._journal.is_silent

    def own_events(self) -> Sequence[Event]:
        """Return the events that the supervisor wrote during this `oomph run` invocation."""
        return self._own

    def guarded(self) -> bool:
        """True if a Python process of the script is known to have loaded oomph."""
        return self._run_dir is None or any(self._run_dir.glob("owner-*")) or self._ended_at_once()

    def _ended_at_once(self) -> bool:
        """True if the script was stopped so early that its Python may not have loaded oomph yet."""
        ended, decided = last(self._own, AttemptEnded), last(self._own, Decided)
        if ended is None or decided is None or ended.seconds > _LONGEST_START_SECONDS:
            return False
        return any((decided.ending or {}).get(how) for how in ("stopped", "interrupted", "called_off"))


def _run_started(guarding: Guarding) -> RunStarted:
    profile = None if guarding.profile is None else list(guarding.profile)
    return RunStarted(oomph=oomph.__version__, start_over=guarding.ignore_before is not None, profile=profile)


def _lasted(events: Sequence[Event]) -> float:
    """Return the duration of an attempt, in seconds: the sum of the gaps between events, excluding clock changes."""
    return sum(elapsed(before.time, after.time) for before, after in pairwise(events))
