"""The supervisor: attempt, diagnose, decide, record, act; until the script has finished or oomph gives up."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oomph
from oomph.errors import UsageError
from oomph.journal import Event, Journal, read_journal
from oomph.recovery import decisions, effects, interpreter
from oomph.recovery.account import account, restart_line
from oomph.recovery.circumstances import Circumstances, Machine, conditions
from oomph.recovery.command import Command
from oomph.recovery.diagnosis import Named, signal_name
from oomph.recovery.examination import Trail, examine, last
from oomph.recovery.handover import Handover
from oomph.recovery.hang import Hang, Timings, floor_seconds
from oomph.recovery.ladder import Conditions
from oomph.recovery.lineage import VARIABLE as OWNER_VARIABLE
from oomph.recovery.policy import (
    Action,
    Ending,
    Finish,
    GiveUp,
    Ledger,
    Requeue,
    Restart,
    decide,
    is_crash,
    record,
)
from oomph.recovery.process import Attempt, Ended, Patience
from oomph.recovery.progress import Progress, read_progress
from oomph.recovery.rundir import FINISHED, RunDirectory, write_whole
from oomph.recovery.signals import Signals
from oomph.recovery.speech import say
from oomph.recovery.summary import Summary, summarise
from oomph.recovery.surroundings import Surroundings
from oomph.recovery.terminal import Terminal
from oomph.recovery.watch import STACKS_SIGNAL, Watch

_PACKAGE = Path(oomph.__file__).resolve().parent
_SITE = _PACKAGE / "inject" / "site"
_SILENT_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Settings:
    """What the command line sets for every attempt of the run."""

    guard: bool = True
    checkpoint_steps: int | None = None
    checkpoint_seconds: float | None = None
    micro_batch: int | None = None
    inexact: str | None = None
    verify: int | None = None
    recheck: int | None = None
    allowed: frozenset[str] = frozenset()
    """Changes that alter the mathematics (`ladder.OPT_IN`) and are allowed all the same."""
    patience: Patience = field(default_factory=Patience)
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True)
class Outcome:
    """What `oomph run` ends with."""

    exit_code: int
    summary: Summary


class Supervisor:
    """One `oomph run`: it holds the signal handlers and the terminal while the script lives."""

    def __init__(self, command: Command, python: str, run: RunDirectory | None, settings: Settings) -> None:
        self._command, self._python, self._run, self._settings = command, python, run, settings
        self._run_dir = None if run is None else run.path
        self._number = 0 if run is None else run.record.attempts
        self._ledger = Ledger()
        self._machine = Machine(os.environ)
        self._timings, self._floor = Timings(), floor_seconds()
        self._unrecorded: list[Event] = []
        """The supervisor's own events, for the summary of a run without a directory."""
        self._at_line_start = True

    def supervise(self) -> Outcome:
        """Run the script until it is over."""
        self._close_lost_attempt()
        self._say_start()
        with Signals() as signals:
            terminal = Terminal()
            try:
                action = self._attempt(signals, terminal)
                while isinstance(action, Restart):
                    action = self._attempt(signals, terminal)
            finally:
                terminal.close()
            return self._finish(action)

    def _attempt(self, signals: Signals, terminal: Terminal) -> Action:
        """One life of the script, and what to do after it."""
        self._number += 1
        journal = Journal(self._run_dir, self._number, "supervisor")
        self._write(journal, "attempt-started", python=self._python, command=list(self._command.words))
        self._note(attempts=self._number, status="running")
        around, watch = Circumstances(self._machine), Watch(self._timings, self._floor, self._loops)
        try:
            attempt = self._start(signals, terminal, watch, journal)
        except UsageError:
            self._close_unstarted(journal)
            raise
        try:
            ended = attempt.wait()
            self._at_line_start = attempt.at_line_start
            around.look_back(attempt.pids)
            names, ending = self._examine_safely(ended, around, watch.crash_stacks())
            there = self._conditions(ended, around)
            action = decide(ending, self._ledger, there, self._settings.allowed)
            action = _as_interrupted(action, ended, signals)
            if isinstance(action, Finish):
                attempt.leave_rest()
            else:
                self._end_group(attempt)
            if isinstance(action, Restart):
                self._wait_for_memory(journal, signals)
                action = _unless_called_off(action, signals)
        finally:
            peak_rss_bytes = attempt.close()
            watch.close()
        self._record(journal, ended, ending, around, peak_rss_bytes, names, there, action)
        self._ledger = record(ending, action, self._ledger)
        if isinstance(action, Restart):
            self._prepare(action)
            self._say(restart_line(ending, self._progress(), self._number + 1, action.change))
        return action

    def _start(self, signals: Signals, terminal: Terminal, watch: Watch, journal: Journal) -> Attempt:
        return Attempt(
            self._command.argv(self._python),
            self._environment(watch),
            signals,
            terminal,
            log=None if self._run_dir is None else self._run_dir / "stderr" / f"{self._number}.log",
            lock_fd=None if self._run is None else self._run.lock_fd,
            patience=self._settings.patience,
            watch=watch,
            on_hang=lambda hang: self._tell_hang(hang, journal),
        )

    def _environment(self, watch: Watch) -> dict[str, str]:
        """The script's environment: ours, the handover, and our sitecustomize in front of PYTHONPATH."""
        changes = self._ledger.changes
        environ = dict(os.environ)
        environ.pop(OWNER_VARIABLE, None)  # a run below another run has an owner of its own
        for name, value in self._settings.surroundings.changes.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
        if changes:
            environ = effects.environ_after(changes, environ, self._machine.all_gpus)
        path = environ.get("PYTHONPATH")
        environ["PYTHONPATH"] = f"{_SITE}{os.pathsep}{path}" if path else str(_SITE)
        beat_inode, stacks_inode = watch.inodes
        Handover(
            package=str(_PACKAGE),
            run_dir=None if self._run_dir is None else str(self._run_dir),
            attempt=self._number,
            guard=self._settings.guard,
            checkpoint_steps=self._settings.checkpoint_steps,
            checkpoint_seconds=self._settings.checkpoint_seconds,
            micro_batch=self._settings.micro_batch,
            inexact=self._settings.inexact,
            verify=self._settings.verify,
            recheck=self._settings.recheck,
            lock_fd=None if self._run is None else self._run.lock_fd,
            beat_fd=watch.beat_fd,
            beat_inode=beat_inode,
            stacks_fd=watch.stacks_fd,
            stacks_inode=stacks_inode,
            stacks_signal=STACKS_SIGNAL,
            most_samples=effects.most_samples(changes),
            changes=effects.for_the_script(changes),
        ).write(environ)
        return environ

    def _examine_safely(self, ended: Ended, around: Circumstances, stacks: str) -> tuple[tuple[Named, ...], Ending]:
        """Without knowing more, the bare exit code is enough to decide upon."""
        try:
            trail = Trail(
                ended.returncode,
                around.oom_kills,
                ended.stderr,
                ended.stopped,
                self._events_of_attempt(),
                self._progress(),
                asked=ended.asked,
                hung=ended.hang is not None,
                elsewhere="\n".join([stacks, *around.kernel_lines]),
                broken_gpu=bool(around.broken_gpu),
            )
            blind = not self._settings.guard or self._run_dir is None
            return examine(trail, wrapped=self._command.form == "command", blind=blind)
        except Exception as error:
            self._say(f"the end of the script could not be examined: {type(error).__name__}: {error}")
            return (), Ending(ended.returncode, signal_name(ended.returncode), stopped=ended.stopped)

    def _conditions(self, ended: Ended, around: Circumstances) -> Conditions:
        if ended.returncode == 0:
            return Conditions()  # nothing will be changed: do not wait for what NVML says
        return conditions(
            self._machine, around.broken_gpu, self._events_of_attempt(), self._run_dir, ended.returncode
        )  # fmt: skip

    def _tell_hang(self, hang: Hang, journal: Journal) -> None:
        """Written down before anything is ended: what follows may take its time, or us with it."""
        self._write(
            journal,
            "hang",
            phase=hang.phase.name.lower().replace("_", "-"),
            fit=hang.fit,
            seconds=round(hang.seconds, 1),
            limit_seconds=round(hang.limit_seconds, 1),
            line=hang.line,
            stacks=hang.stacks,
        )
        self._say(hang.in_words())

    def _loops(self) -> list[tuple[str, int, int]]:
        """The lines of the training loops that the script has told of."""
        seen = [event.data.get("loops", ()) for event in self._events_of_attempt() if event.name == "loop-seen"]
        return [(str(file), int(first), int(final)) for loops in seen for file, first, final in loops]

    def _prepare(self, action: Restart) -> None:
        """What a restart changes outside of the script's environment."""
        if action.change is None:
            return
        self._timings.forget()
        if action.change.name == "older-checkpoint" and self._run_dir is not None:
            effects.set_aside(self._run_dir / "checkpoints", action.change.value)

    def _wait_for_memory(self, journal: Journal, signals: Signals) -> None:
        """A new process would run out of the memory that the driver has not taken back from the dead one yet."""
        seconds = self._machine.wait_for_memory(lambda: _called_off_by(signals))
        if seconds is None:
            self._write(journal, "gpu-memory-held")
            self._say("the GPU's memory is still in use by the dead script, or by others; starting all the same")
        elif seconds > 1:
            self._write(journal, "gpu-memory-back", seconds=round(seconds, 1))

    def _progress(self) -> Progress | None:
        """Where this attempt got to; None when it has not committed a step."""
        progress = None if self._run_dir is None else read_progress(self._run_dir / "progress")
        return progress if progress is not None and progress.attempt == self._number else None

    def _events_of_attempt(self) -> list[Event]:
        if self._run_dir is None:
            return []
        return [event for event in read_journal(self._run_dir, self._number) if event.role != "supervisor"]

    def _record(
        self,
        journal: Journal,
        ended: Ended,
        ending: Ending,
        around: Circumstances,
        peak_rss_bytes: int,
        names: Sequence[Named],
        there: Conditions,
        action: Action,
    ) -> None:
        self._write(
            journal,
            "attempt-ended",
            returncode=ended.returncode,
            seconds=round(ended.seconds, 3),
            steps=ending.steps,
            saved=ending.saved,
            oom_kills=around.oom_kills,
            peak_rss_bytes=peak_rss_bytes,
        )
        if names or (is_crash(ending.returncode) and not ending.stopped):
            also = [{"fault": named.name, "code": named.code} for named in names[1:]]
            code = names[0].code if names else ""
            self._write(journal, "diagnosed", fault=ending.fault, code=code, also=also)
        if around.kernel_lines:
            self._write(journal, "kernel-log", lines=around.kernel_lines[-20:])
        taken_upon = decisions.facts(ending, there, self._settings.allowed)
        self._write(journal, "decided", **decisions.in_words(action), ledger=self._ledger.as_data(), **taken_upon)
        if not isinstance(action, Restart):
            self._write(journal, "run-ended", exit_code=action.exit_code)
        journal.close()

    def _write(self, journal: Journal, name: str, **data: Any) -> None:
        if name == "attempt-started" and not self._unrecorded:
            self._unrecorded.append(journal.write("run-started", oomph=oomph.__version__))
            machine = self._settings.surroundings
            if machine.snapshot is not None:
                journal.write("machine", snapshot=machine.snapshot, repairs=machine.changes)
        self._unrecorded.append(journal.write(name, **data))

    def _close_lost_attempt(self) -> None:
        """On --resume: the attempt that a killed supervisor could not see the end of."""
        if self._run_dir is None or self._number == 0:
            return
        self._ledger = decisions.ledger_of(read_journal(self._run_dir))
        events = read_journal(self._run_dir, self._number)
        progress = self._progress()
        if last(events, "attempt-ended") is None:
            journal = Journal(self._run_dir, self._number, "supervisor")
            seconds = max(e.time for e in events) - min(e.time for e in events) if events else 0.0
            journal.write(
                "attempt-ended",
                returncode=None,
                seconds=round(seconds, 3),
                steps=0 if progress is None else progress.steps,
                saved=0 if progress is None else progress.saved,
                oom_kills=None,
            )
            journal.close()

    def _note(self, **changes: Any) -> None:
        """Bring run.json up to date; a full disk, or a folder that is gone, must not end the training."""
        if self._run is not None:
            try:
                self._run.update(**changes)
            except OSError as error:
                self._say(f"run.json can not be written: {error.strerror}")

    def _close_unstarted(self, journal: Journal) -> None:
        self._write(journal, "run-ended", exit_code=UsageError.exit_code)
        journal.close()
        self._note(status="failed")

    def _end_group(self, attempt: Attempt) -> None:
        """Workers that the script left behind hold memory that its next life needs."""
        since = time.monotonic()
        if not attempt.end_group(_SILENT_WAIT_SECONDS):
            self._say("waiting for the processes that the script left behind to end")
            if not attempt.end_group(10 * _SILENT_WAIT_SECONDS):
                self._say(f"they have not ended in {time.monotonic() - since:.0f} s; going on without waiting")

    def _finish(self, action: Finish | GiveUp | Requeue) -> Outcome:
        """Whatever goes wrong here, the exit code is the script's."""
        self._machine.close()
        summary = summarise(self._unrecorded, action.exit_code)
        try:
            events = self._unrecorded if self._run_dir is None else read_journal(self._run_dir)
            summary = summarise(events, action.exit_code)
            self._note(status=_status(action))
            not_finite = any(event.name == "checkpoint-skipped" for event in events)
            if self._run_dir is not None and _status(action) == FINISHED and not not_finite:
                shutil.rmtree(self._run_dir / "checkpoints", ignore_errors=True)  # nothing is left to resume
            if self._run_dir is not None:
                write_whole(self._run_dir / "summary.json", summary.to_json())
            for line in account(summary, self._shown_run_dir()):
                self._say(line)
            self._advise(events)
        except Exception as error:
            self._say(f"the summary could not be made: {type(error).__name__}: {error}")
        return Outcome(action.exit_code, summary)

    def _advise(self, events: Sequence[Event]) -> None:
        own = [event for event in events if event.attempt == self._number]
        module = interpreter.missing_module(own)
        if module is not None:
            self._say(interpreter.advise(module, self._python, self._command))
        if self._run_dir is not None and not list(self._run_dir.glob("owner-*")):
            self._say("the script ran unguarded: no Python of it loaded oomph (was it started with -I, -E or -S?)")

    def _say_start(self) -> None:
        python = "" if self._command.form == "command" else f" with {self._python}"
        where = "" if self._run_dir is None else f", run directory {self._shown_run_dir()}"
        again = f", attempt {self._number + 1}" if self._number else ""
        self._say(f"running {self._command.shown}{python}{where}{again}")
        for remark in self._settings.surroundings.remarks:
            self._say(remark)

    def _shown_run_dir(self) -> str | None:
        """As short as it can be typed."""
        if self._run_dir is None:
            return None
        try:
            return str(self._run_dir.relative_to(Path.cwd()))
        except ValueError:
            return str(self._run_dir)

    def _say(self, text: str) -> None:
        start = "" if self._at_line_start else "\n"
        self._at_line_start = True
        say(text, start)


def _as_interrupted(action: Action, ended: Ended, signals: Signals) -> Action:
    """A second Ctrl-C asks harder, with SIGTERM; to the user it is the end by Ctrl-C that plain Python gives."""
    asked = {arrival.signum for arrival in signals.history}
    harder = ended.returncode in (-signal.SIGTERM, -signal.SIGKILL) or isinstance(action, Requeue)
    if isinstance(action, (Finish, Requeue)) and harder and signal.SIGINT in asked and signal.SIGTERM not in asked:
        return Finish(128 + signal.SIGINT)
    return action


def _unless_called_off(action: Action, signals: Signals) -> Action:
    """A Ctrl-C or SIGTERM that came when no script was there to pass it on to ends the run."""
    signum = _called_off_by(signals)
    return action if signum is None else Finish(128 + signum)


def _called_off_by(signals: Signals) -> int | None:
    """The signal that came since the script has ended, and wants the run to end; the queue holds others as well."""
    asks = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return next((arrival.signum for arrival in signals.queue if arrival.signum in asks), None)


def _status(action: Finish | GiveUp | Requeue) -> str:
    match action:
        case Requeue():
            return "preempted"
        case GiveUp():
            return "gave-up"
        case Finish(exit_code):
            return FINISHED if exit_code == 0 else "failed"
