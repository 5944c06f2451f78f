"""Reads everything that a report tells about a run, as one frozen value. Reads only; a run may still be going on."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from oomph.doctor.recorded import recorded
from oomph.doctor.snapshot import Snapshot
from oomph.errors import ExamineError, RunDirectoryError
from oomph.explain.diagnose import diagnose, words
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.reading.file import Unreadable
from oomph.explain.reading.run import read_run
from oomph.journal.events import (
    AttemptEnded,
    Recovered,
    RestartRequested,
    Resumed,
    RunStarted,
)
from oomph.journal.journal import Event, by_attempt, facts, last, pairs
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.store import COMPRESSED, FOLDER, TAIL
from oomph.page.axis import is_plausible
from oomph.report.curves import Curves, read_curves
from oomph.report.profiles import Profiles, read_profiles
from oomph.report.workers import RecordedWorkers, read_workers
from oomph.run.directory.recorded_story import command_of_run, is_of_notebook, recorded_run, why_nothing_is_told
from oomph.run.directory.run_directory import RunRecord, written_by_another
from oomph.run.directory.unfinished import Unfinished, unfinished
from oomph.run.policy.decisions import Decision, replay
from oomph.run.report.account import rows_of
from oomph.run.report.attempts import stopped
from oomph.run.report.story import Story
from oomph.run.report.summary import Summary, is_of_training
from oomph.terminal.amounts import as_duration, counted

_LONGEST_SECONDS = 1e9
_WORTH_TELLING_SECONDS = 20.0
"""The time without samples that is worth a sentence: a monitor needs some to start, and waits for a busy machine."""
_TOLERATED_SECONDS = 1.0
"""The time by which a clock may be turned back without any harm, as when it is set by the network's time."""
_SUSPENDED_SECONDS = 7 * 86400.0
"""The time by which an attempt may outlast its process, since a machine may be suspended meanwhile."""


@dataclass(frozen=True)
class ReportedAttempt:
    """One attempt, as the report's timeline shows it."""

    number: int
    begin: float
    """The Unix time of its first event."""
    end: float | None
    """The Unix time of its end, or None if it has not ended, or nobody saw the end."""
    seconds: float | None = None
    """The time it took by a clock that nobody can change, or None if nobody saw its end."""
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
    workers: RecordedWorkers = field(default_factory=RecordedWorkers)
    snapshot: Snapshot | None = None
    """The machine at the last start, or None if the journal does not describe it."""
    left: Unfinished | None = None
    """The state of a run that has not finished, or None for others."""
    is_clock_changed: bool = False
    """True if the clock was turned back during the run, or forward by far."""
    missing: tuple[str, ...] = ()
    """The parts of the run that cannot be read, as sentences."""
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
    def is_going_on(self) -> bool:
        """True if the run is in progress."""
        return self.left is not None and self.left.going_on

    @property
    def outcome(self) -> str:
        """The run's end, or its present state."""
        if not self.events and self.record is None and not self.story.gap:
            return "nothing is recorded but samples"
        if self.left is None:
            return self.story.outcome
        return f"running: {self.story.outcome}" if self.left.going_on else f"{self.story.outcome}{self.left.state}"

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
    def seconds(self) -> float | None:
        """The time that the run took, or None if that is unknown, since the clock was changed during it."""
        if not self.is_clock_changed:
            return self.end - self.begin
        known = [attempt.seconds for attempt in self.attempts if attempt.seconds is not None]
        return sum(known) if len(known) == len(self.attempts) else None

    @property
    def kept_steps(self) -> int:
        """The steps that restarts did not have to train again, because a checkpoint had them."""
        return sum(attempt.resumed_at or 0 for attempt in self.attempts[1:])


def read_recording(path: Path) -> Recording:
    """Read a run. Raises RunDirectoryError for a run of another version, and ExamineError if nothing is recorded."""
    if foreign := written_by_another(path):
        raise RunDirectoryError(foreign)
    with JournalReader(path):  # read the journal only once, for all parts of the report
        run, curves = recorded_run(path), read_curves(path)
        events = run.events
        if not events and not curves.times:
            raise ExamineError(why_nothing_is_told(path))
        attempts = tuple(map(_attempt, by_attempt(events)))
        return Recording(
            path=path,
            record=run.record,
            events=events,
            summary=run.summary,
            story=run.story,
            attempts=attempts,
            decisions=tuple(replay(events)),
            diagnoses=tuple(_diagnoses(path)),
            curves=curves,
            profiles=read_profiles(path, events),
            workers=read_workers(path, events),
            snapshot=recorded(path),
            left=unfinished(path),
            is_clock_changed=(is_clock_changed := curves.went_back or _is_clock_changed(events, attempts)),
            missing=(*run.missing, *_lost_samples(path, curves, () if is_clock_changed else attempts)),
        )


def _lost_samples(path: Path, curves: Curves, attempts: Sequence[ReportedAttempt]) -> Iterator[str]:
    """Yield a sentence if samples of these attempts were lost. Those that the monitor has never taken are no loss."""
    files = [path / name for name in (COMPRESSED, TAIL) if os.path.lexists(path / name)]
    if locked := [each for each in (path / FOLDER, *files) if os.path.lexists(each) and not os.access(each, os.R_OK)]:
        yield f"{locked[0]} cannot be read: permission denied; the report lacks what it holds"
    elif files and not curves.times:
        yield f"the samples in {path / FOLDER} are damaged, so there are no charts"
    elif (seconds := _unsampled_seconds(curves, attempts)) > _WORTH_TELLING_SECONDS:
        yield f"{as_duration(seconds)} of the run have no samples, which are missing or damaged: the charts have gaps"


def _unsampled_seconds(curves: Curves, attempts: Sequence[ReportedAttempt]) -> float:
    """Return how much of the attempts, as far as they have ended, has no samples."""
    if not curves.times:
        return 0.0
    gaps = [(-math.inf, curves.times[0]), *curves.gaps, (curves.times[-1], math.inf)]
    spans = [(attempt.begin, attempt.end) for attempt in attempts if attempt.end is not None]
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans for since, until in gaps)


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
        seconds=None if ended is None or not 0 <= ended.seconds < _LONGEST_SECONDS else ended.seconds,
        returncode=None if ended is None else ended.returncode,
        steps=None if ended is None else ended.steps,
        saved=0 if ended is None else ended.saved,
        resumed_at=max(resumed, default=None),
        asked_for_another=last(events, RestartRequested) is not None,
    )


def _is_clock_changed(events: Sequence[Event], attempts: Sequence[ReportedAttempt]) -> bool:
    newest: dict[tuple[int, int, str], float] = {}
    for event in events:
        writer = event.attempt, event.rank, event.role
        if event.time < newest.get(writer, event.time) - _TOLERATED_SECONDS:
            return True
        newest[writer] = event.time
    turned_back = any(after.begin < before.begin - _TOLERATED_SECONDS for before, after in pairwise(attempts))
    return turned_back or any(
        each.end - each.begin - each.seconds > _SUSPENDED_SECONDS
        for each in attempts
        if each.end is not None and each.seconds is not None
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
        kept = counted(recording.kept_steps, "step")
        rows.append(("what was saved", f"{kept} did not have to be trained again after a restart"))
    return rows


def why_no_charts(recording: Recording) -> str:
    """Explain in a sentence why there are no samples to draw."""
    if recording.is_notebook:
        return "There are no charts, since no monitor samples a notebook's kernel."
    return "There are no charts, since there are no samples of the monitor that can be read."


def version_of(recording: Recording) -> str:
    """Return the version of oomph that ran it, or an empty string."""
    started = last(recording.events, RunStarted)
    return "" if started is None else started.oomph
