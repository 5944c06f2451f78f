"""Closes a run: writes its status and summary, removes checkpoints, and prints the last lines."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.checkpoint.store import Record, unused
from oomph.files.oomph_folder import WORKERS, run_of
from oomph.files.opening import is_own_folder, replace_own
from oomph.journal.events import AttemptEnded, CheckpointSkipped, Decided
from oomph.journal.journal import Event, last
from oomph.process.command import Command
from oomph.run.directory.recorded_story import summary_of_run
from oomph.run.directory.run_directory import FAILED, FINISHED, GAVE_UP, KEPT, PREEMPTED, RunDirectory
from oomph.run.directory.workers import folders_of
from oomph.run.policy.decide import Finish, GiveUp, Requeue
from oomph.run.report.account import HEAD, account
from oomph.run.report.attempts import failed_first, interrupted, reached, stopped
from oomph.run.report.causes import unguarded
from oomph.run.report.labels import STOPPED
from oomph.run.report.next_command import command_to_go_on, variables_read
from oomph.run.report.notification import Occasion, of_the_end
from oomph.run.report.summary import Summary, summarise
from oomph.run.supervisor import interpreter
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.notifying import Notifier
from oomph.run.supervisor.settings import Settings
from oomph.terminal.amounts import counted
from oomph.terminal.console import Voice


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of `oomph run`.

    Its repr is short: the result and the most important counts. The attributes contain everything.
    """

    exit_code: int
    summary: Summary
    run_dir: Path | None = None
    """The run directory, or None if there was none."""

    def __repr__(self) -> str:
        return f"Outcome(exit_code={self.exit_code}, summary={self.summary!r})"

    def __str__(self) -> str:
        return f"exit code {self.exit_code}: {self.summary}"


@dataclass(frozen=True)
class Closing:
    """Closes one run."""

    run: RunDirectory | None
    chronicle: Chronicle
    command: Command
    python: str
    settings: Settings
    voice: Voice
    notifier: Notifier

    def close(self, action: Finish | GiveUp | Requeue) -> RunOutcome:
        """Close the run. An error here does not change the exit code."""
        summary = summarise(self.chronicle.own_events(), action.exit_code)
        try:
            events = self.chronicle.events()
            if self.run is None:
                summary = summarise(events, action.exit_code)
            else:
                summary = summary_of_run(self.run.path, events, action.exit_code)
            kept = self._unused(events) if action.exit_code == 0 else []
            status = KEPT if kept else _status(action)
            note(self.run, self.voice, status=status)
            if self.run is not None:
                self._keep_safely(self.run.path, events, summary, status)
            python, guard = (
                self.command.form != "command" or bool(self.command.own_python),
                self.settings.guarding.guard,
            )
            said = unguarded(events, guard, self.chronicle.guarded(), python, recorded=self.run is not None)
            again = self._again(events, action)
            ended = last(events, AttemptEnded)
            returncode = None if ended is None else ended.returncode
            run = None if self.run is None else shlex.quote(shown_path(run_of(self.run.path)))
            lines = account(summary, run, again, said, returncode, stopped(events), failed_first(events))
            self.notifier.send(of_the_end(_occasion(action, stopped(events)), lines, summary))
            for line in lines:
                self.voice.say(line, HEAD if summary.eventful else 0, again or f"oomph explain {run}")
            self._tell_unused(kept, interrupted(events, self.chronicle.attempt))
            if again:
                self._tell_needed(events)
            self._advise(events)
        except Exception as error:
            self.voice.say(f"the summary could not be created: {type(error).__name__}: {error}")
        return RunOutcome(action.exit_code, summary, None if self.run is None else self.run.path)

    def _unused(self, events: Sequence[Event]) -> list[Record]:
        """Return the checkpoints with more steps than were trained, and those of interrupted training.

        With `--start-over`, checkpoints from earlier attempts are ignored.
        """
        attempt, starts_over = self.chronicle.attempt, self.settings.guarding.ignore_before is not None
        cut, own_alone = interrupted(events, attempt), attempt == 1 or starts_over
        if self.run is None or (own_alone and not cut) or not is_own_folder(self.run.path, "checkpoints"):
            return []
        found = unused(self.run.path / "checkpoints", reached(events, attempt))
        return [each for each in found if each.position.fit in cut] if own_alone else found

    def _tell_unused(self, kept: Sequence[Record], cut: set[int]) -> None:
        if not kept or self.run is None:
            return
        at, record = kept[0].position, self.run.record
        names = kept[0].path.name + (f" and {counted(len(kept) - 1, 'other')}" if len(kept) > 1 else "")
        again = command_to_go_on(record.options, record.command, str(shown(self.run)))
        more = f"with more of fit {at.fit + 1} than this run trained; to resume from it, undo the change: {again}"
        if at.fit in cut:
            more = f"of fit {at.fit + 1}, which was interrupted; to continue it: {again}"
        self.voice.say(f"{'kept':<{HEAD}}{names} in {shown(self.run)}/checkpoints, {more}", HEAD, again)

    def _keep_safely(self, folder: Path, events: Sequence[Event], summary: Summary, status: str) -> None:
        """Delete unneeded checkpoints and write the summary. Even if the disk is full, the user learns how it ended."""
        try:
            self._keep(folder, events, summary, status)
        except OSError as error:
            self.voice.say(f"summary.json cannot be written: {error.strerror}")

    def _keep(self, folder: Path, events: Sequence[Event], summary: Summary, status: str) -> None:
        for place in folders_of(folder) if status == FINISHED else ():  # nothing is left to resume
            _remove_unneeded(place, last(events, CheckpointSkipped) is not None)
        replace_own(folder, "summary.json", summary.to_json().encode())

    def _again(self, events: Sequence[Event], action: Finish | GiveUp | Requeue) -> str:
        """Return the command that resumes a stopped run, or an empty string for a run that ended on its own."""
        decided = last(events, Decided)
        asked = decided is not None and (decided.ending or {}).get("stopped")
        if self.run is None or action.exit_code == 0 or not (asked or action.exit_code in STOPPED):
            return ""
        if self.run.path.parent.name == WORKERS:  # the first worker's command resumes all
            return ""
        read = variables_read(events, os.environ)
        return command_to_go_on(self.settings.typed, self.command.words, str(shown(self.run)), read.shown)

    def _tell_needed(self, events: Sequence[Event]) -> None:
        names = variables_read(events, os.environ).others
        if names:
            self.voice.say(
                "to resume, set the environment variables that the script reads to their current values: "
                f"{', '.join(names)}"
            )

    def _advise(self, events: Sequence[Event]) -> None:
        own = [event for event in events if event.attempt == self.chronicle.attempt]
        module = interpreter.missing_module(own)
        if module is not None:
            self.voice.say(interpreter.advise(module, interpreter.started_python(own) or self.python, self.command))


def _remove_unneeded(folder: Path, not_finite: bool) -> None:
    """Remove the checkpoints of a finished process; after NaN, keep the last finite one."""
    if not is_own_folder(folder, "checkpoints"):
        return
    for path in folder.glob("checkpoints/finished-*" if not_finite else "checkpoints"):
        shutil.rmtree(path, ignore_errors=True)
    if not not_finite:
        (folder / "witness").unlink(missing_ok=True)


def note(run: RunDirectory | None, voice: Voice, **changes: Any) -> None:
    """Update run.json. A full disk or a deleted folder must not end the run."""
    if run is not None:
        try:
            run.update(**changes)
        except OSError as error:
            voice.say(f"run.json cannot be written: {error.strerror}")


def shown(run: RunDirectory | None) -> str | None:
    """Return the shortest path to type for the run directory."""
    return None if run is None else shown_path(run.path)


def shown_path(path: Path) -> str:
    """Return the shortest path to type."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _occasion(action: Finish | GiveUp | Requeue, stopped_by: str) -> Occasion:
    match action:
        case Requeue():
            return "preempted"
        case GiveUp():
            return "gave-up"
        case Finish(exit_code):
            return "finished" if exit_code == 0 else "stopped" if stopped_by else "failed"


def _status(action: Finish | GiveUp | Requeue) -> str:
    match action:
        case Requeue():
            return PREEMPTED
        case GiveUp():
            return GAVE_UP
        case Finish(exit_code):
            return FINISHED if exit_code == 0 else FAILED
