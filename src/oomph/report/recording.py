"""Reads everything that a report tells about a run, as one frozen value. Reads only; a run may still be going on."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oomph.doctor.recorded import recorded
from oomph.doctor.snapshot import Snapshot
from oomph.errors import ExamineError, RunDirectoryError
from oomph.explain.diagnose import diagnose, words
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.reading.file import Unreadable
from oomph.explain.reading.run import read_run, what_is_missing, why_nothing_is_known
from oomph.journal.events import (
    AttemptEnded,
    Recovered,
    RestartRequested,
    Resumed,
    RunStarted,
)
from oomph.journal.journal import Event, by_attempt, facts, last, pairs, read_journal
from oomph.journal.journal_reader import JournalReader
from oomph.page.axis import is_plausible
from oomph.report.curves import Curves, read_curves
from oomph.report.profiles import Profiles, read_profiles
from oomph.run.directory.recorded_story import command_of_run, exit_code_of, is_of_notebook, story_from, summary_of_run
from oomph.run.directory.run_directory import RunRecord, read_record, written_by_another
from oomph.run.directory.unfinished import unfinished
from oomph.run.policy.decisions import Decision, replay
from oomph.run.report.account import rows_of
from oomph.run.report.attempts import stopped
from oomph.run.report.story import Story
from oomph.run.report.summary import Summary, is_of_training
from oomph.terminal.amounts import counted


@dataclass(frozen=True)
class ReportedAttempt:
    """One attempt, as the report's timeline shows it."""

    number: int
    begin: float
    """The Unix time of its first event."""
    end: float | None
    """The Unix time of its end, or None if it has not ended, or nobody saw the end."""
    returncode: int | None = None
    steps: int | None = None
    """The steps of the run when it ended, or None if unknown."""
    saved: int = 0
    resumed_at: int | None = None
    """The step from which it resumed, or None if it started at the beginning."""
    asked_for_another: bool = False
    """True if the process could not go on and asked for a new one."""


@dataclass(frozen=True)
class Recording:
    """A run as it was recorded."""

    path: Path
    record: RunRecord | None
    events: Sequence[Event]
    summary: Summary
    story: Story
    attempts: tuple[ReportedAttempt, ...]
    decisions: tuple[Decision, ...]
    diagnoses: tuple[Diagnosis, ...]
    curves: Curves
    profiles: Profiles = field(default_factory=Profiles)
    snapshot: Snapshot | None = None
    """The machine at the last start, or None if the journal does not describe it."""
    is_going_on: bool = False
    missing: str = ""
    """A sentence about what of the run cannot be read, or an empty string."""
    now: float = field(default_factory=time.time)
    """The Unix time at which the run was read."""

    @property
    def command(self) -> str:
        """The script and its arguments."""
        return "" if self.record is None else shlex.join(self.record.command)

    @property
    def is_notebook(self) -> bool:
        """True if the attempts are kernels of a notebook."""
        return is_of_notebook(self.path)

    @property
    def title(self) -> str:
        """The script and its arguments, the notebook, or if neither is known the directory."""
        return self.command or self.path.name

    @property
    def outcome(self) -> str:
        """How the run ended or stands; without a readable journal, nobody knows of any fault."""
        if not self.attempts:
            return "nothing is recorded but samples"
        return f"running: {self.story.outcome}" if self.is_going_on else self.story.outcome

    @property
    def begin(self) -> float:
        """The Unix time at which the run began."""
        known = [attempt.begin for attempt in self.attempts if attempt.begin] + list(self.curves.times[:1])
        return min(known, default=self.now)

    @property
    def end(self) -> float:
        """The Unix time up to which the run is recorded."""
        if self.is_going_on:
            return self.now
        known = [attempt.end or attempt.begin for attempt in self.attempts] + list(self.curves.times[-1:])
        return max([self.begin, *known])

    @property
    def kept_steps(self) -> int:
        """The steps that restarts did not have to train again, because a checkpoint had them."""
        return sum(attempt.resumed_at or 0 for attempt in self.attempts[1:])


def read_recording(path: Path) -> Recording:
    """Read a run. Raises RunDirectoryError for a run of another version, and ExamineError if nothing is recorded."""
    if foreign := written_by_another(path):
        raise RunDirectoryError(foreign)
    with JournalReader(path):  # read the journal only once, for all parts of the report
        events, curves, record = read_journal(path), read_curves(path), read_record(path)
        if not events and not curves.times:
            raise ExamineError(why_nothing_is_known(path))
        summary = summary_of_run(path, events, exit_code_of(events))
        left = unfinished(path)
        return Recording(
            path=path,
            record=record,
            events=events,
            summary=summary,
            story=story_from(path, events, summary),
            attempts=tuple(map(_attempt, by_attempt(events))),
            decisions=tuple(replay(events)),
            diagnoses=tuple(_diagnoses(path)),
            curves=curves,
            profiles=read_profiles(path, events),
            snapshot=recorded(path),
            is_going_on=left is not None and left.going_on,
            missing=_missing(path, record),
        )


def _missing(path: Path, record: RunRecord | None) -> str:
    """Return a sentence about what of a run cannot be read. Samples of `oomph.Monitor` alone lack nothing."""
    if record is None and not os.path.lexists(path / "journal"):
        return ""
    return what_is_missing(path, 0 if record is None else record.attempts)


def _diagnoses(path: Path) -> Iterator[Diagnosis]:
    """Yield what the evidence shows, with the run's own command in the remedies."""
    own = command_of_run(path)
    try:
        for diagnosis in diagnose(read_run(path, words())):
            yield diagnosis._replace(command=own)
    except (Unreadable, OSError):
        return  # the rest of the report does not need its logs


def _attempt(events: Sequence[Event]) -> ReportedAttempt:
    ended = last(events, AttemptEnded)
    times = [event.time for event in events if is_plausible(event.time)]
    begin, resumed = min(times, default=0.0), [each.steps for each in facts(events, Resumed)]
    return ReportedAttempt(
        number=events[0].attempt,
        begin=begin,
        end=_end_of(begin, events, ended),
        returncode=None if ended is None else ended.returncode,
        steps=None if ended is None else ended.steps,
        saved=0 if ended is None else ended.saved,
        resumed_at=max(resumed, default=None),
        asked_for_another=last(events, RestartRequested) is not None,
    )


def _end_of(begin: float, events: Sequence[Event], ended: AttemptEnded | None) -> float | None:
    """Return when an attempt ended. If nobody saw that, its end was written later, with how long it was seen."""
    if ended is None:
        return None
    if ended.returncode is None:
        return begin + ended.seconds if is_plausible(begin + ended.seconds) else None
    closed = [event.time for event in events if isinstance(event.fact, AttemptEnded) and is_plausible(event.time)]
    return closed[-1] if closed else None


def micro_batches_of(recording: Recording) -> list[tuple[float, int]]:
    """Return when the size of the micro-batches changed, and to what: as sampled, or without samples as recorded."""
    sampled = zip(recording.curves.times, recording.curves.columns.get("training.micro_batch", ()), strict=False)
    sizes = [(at, int(size)) for at, size in sampled if size]
    if not recording.curves.times:
        sizes = [
            (event.time, each.micro_batch)
            for event, each in pairs(recording.events, Recovered)
            if each.micro_batch and is_of_training(each)
        ]
    return [
        change
        for before, change in zip([None, *sizes], sizes, strict=False)
        if before is None or before[1] != change[1]
    ]


def account_of(recording: Recording) -> list[tuple[str, str]]:
    """Return what happened, what was done, what it cost and what was saved, as pairs of a heading and a text."""
    if not recording.attempts:
        return []  # samples alone, of oomph.Monitor
    rows = rows_of(recording.summary, stopped(recording.events), recording.is_going_on)
    if recording.kept_steps:
        kept = counted(recording.kept_steps, "step", ",")
        rows.append(("what was saved", f"{kept} did not have to be trained again after a restart"))
    return rows


def version_of(recording: Recording) -> str:
    """Return the version of oomph that ran it, or an empty string."""
    started = last(recording.events, RunStarted)
    return "" if started is None else started.oomph
