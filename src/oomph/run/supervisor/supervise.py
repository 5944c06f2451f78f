"""Supervises a run: attempt, diagnose, decide, record, act, until the script finishes or oomph gives up."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

from oomph.errors import UsageError
from oomph.explain.evidence.memory import limit_in_words
from oomph.files.opening import OwnFile
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld, Unkillable
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.process.command import Command
from oomph.process.process_group import Terminal
from oomph.protocol.handover import Injection
from oomph.run.directory.run_directory import FAILED, RUNNING, RunDirectory
from oomph.run.hang.limits import Hang, Timings, floor_seconds
from oomph.run.hang.watch import Watch
from oomph.run.policy.decide import (
    Action,
    Ending,
    Finish,
    Ledger,
    Restart,
    decide,
    hindered,
    record,
    without_unasked,
)
from oomph.run.policy.examination import Named, Trail, examine
from oomph.run.policy.ladder import Conditions
from oomph.run.report.account import restart_line
from oomph.run.report.notification import Notification
from oomph.run.supervisor.attempt import Attempt, Ended
from oomph.run.supervisor.attempt_conditions import KernelWatch, Machine, conditions
from oomph.run.supervisor.chronicle import Chronicle, Judged
from oomph.run.supervisor.closing import Closing, RunOutcome, note, shown
from oomph.run.supervisor.effects import handover, set_aside, surrounding
from oomph.run.supervisor.front import StandardInput, TerminalFront
from oomph.run.supervisor.monitoring import Monitoring
from oomph.run.supervisor.native_reports import MemoryOutcome, NativeReports, kept_in_words
from oomph.run.supervisor.notifying import Notifier
from oomph.run.supervisor.script_findings import ScriptFindings
from oomph.run.supervisor.settings import Settings, other_gpus
from oomph.run.supervisor.stop_requests import Signals
from oomph.terminal.console import Voice
from oomph.terminal.endings import ProcessEnd

_SILENT_WAIT_SECONDS = 2.0


class Supervisor:
    """Supervises one `oomph run`, and owns the signal handlers and the terminal while the script is alive."""

    def __init__(self, command: Command, python: str, run: RunDirectory | None, settings: Settings) -> None:
        self._command, self._python, self._run, self._settings = command, python, run, settings
        self._run_dir = None if run is None else run.path
        self._chronicle = Chronicle(self._run_dir, 0 if run is None else run.record.attempts)
        self._ledger = Ledger()
        self._machine = Machine(os.environ)
        self._timings, self._floor = Timings(), floor_seconds()
        self._voice, self._stdin = Voice(), StandardInput()
        self._notifier = Notifier(settings.notify, self._voice.say, command.shown, shown(run))
        self._native_lines: set[bytes] = set()
        injection = Injection.read()
        self._rehearsed_before = injection is not None and bool(injection.earlier)

    def supervise(self) -> RunOutcome:
        """Run the script until the run is over."""
        self._ledger = without_unasked(self._chronicle.close_lost_attempt(), self._settings.allowed)
        self._say_start()
        with Signals() as signals:
            terminal = Terminal()
            try:
                action = self._attempt(signals, terminal)
                while isinstance(action, Restart):
                    action = self._attempt(signals, terminal)
            finally:
                terminal.close()
            self._machine.close()
            closing = Closing(
                self._run, self._chronicle, self._command, self._python, self._settings, self._voice, self._notifier
            )  # fmt: skip
            outcome = closing.close(action)
            self._notifier.close()
            return outcome

    def _attempt(self, signals: Signals, terminal: Terminal) -> Action:
        """Run one attempt, and act on how it ended."""
        settings = self._settings
        self._chronicle.begin_attempt(
            self._command.words, self._python, settings.machine_at_start, settings.guarding, self._ledger.changes
        )
        if self._chronicle.is_silent:
            self._voice.say("the run's journal cannot be written: nothing is recorded from here on")
        note(self._run, self._voice, attempts=self._chronicle.attempt, status=RUNNING)
        around, watch = KernelWatch(self._machine), Watch(self._timings, self._floor, self._chronicle.loops)
        monitoring = Monitoring(
            self._run_dir, self._chronicle.write, self._voice, self._notify_of_finding, self._findings_of_script()
        )
        try:
            attempt = self._start(signals, terminal, watch, monitoring)
        except UsageError:
            self._chronicle.close_attempt(UsageError.exit_code)
            note(self._run, self._voice, status=FAILED)
            raise
        try:
            judged = self._judge(attempt, watch, around, signals)
        finally:
            peak_rss_bytes = attempt.close()
            watch.close()
            monitoring.close()
        self._chronicle.write_end(judged, peak_rss_bytes, self._settings.allowed, self._ledger)
        self._ledger = record(judged.ending, judged.action, self._ledger)
        if isinstance(judged.action, Restart):
            self._prepare(judged.action)
            progress, following = self._chronicle.progress(), self._chronicle.attempt + 1
            self._voice.say(restart_line(judged.ending, progress, following, judged.action.change))
        return judged.action

    def _judge(self, attempt: Attempt, watch: Watch, around: KernelWatch, signals: Signals) -> Judged:
        """Wait until the attempt ends, diagnose it, decide what to do, and clean up before a restart."""
        ended = attempt.wait()
        around.look_back(attempt.pids)
        names, ending = self._examine_safely(ended, around, watch.crash_stacks())
        there = self._conditions(ended, around)
        ending = replace(ending, interrupted=_interrupted(signals))
        action = decide(ending, self._ledger, there, self._settings.allowed)
        held = self._clear_away(attempt, ending, action)
        if held:
            self._chronicle.write(Unkillable(reason=held))
            self._voice.say(f"the script does not exit: {held}")
        elif isinstance(action, Restart):
            self._wait_for_memory(signals)
            ending = replace(ending, called_off=_called_off_by(signals))
        ending = replace(ending, unkillable=held)
        action = hindered(action, ending)
        return Judged(ended, names, ending, there, action, around.oom_kills, around.kernel_lines)

    def _start(self, signals: Signals, terminal: Terminal, watch: Watch, monitoring: Monitoring) -> Attempt:
        changes, number = self._ledger.changes, self._chronicle.attempt
        entropy = "" if self._run is None else self._run.record.entropy
        environ = surrounding(self._settings, changes, self._machine.all_gpus if changes else (), entropy)
        handover(self._settings.guarding, changes, self._run, number, watch).write(environ)
        log = None if self._run_dir is None else OwnFile(self._run_dir, f"stderr/{number}.log")
        return Attempt(
            self._command.argv(self._python),
            environ,
            TerminalFront(terminal, log, self._reports(number, monitoring), self._voice),
            signals,
            lock_fd=None if self._run is None else self._run.lock_fd,
            patience=self._settings.patience,
            watch=watch,
            on_hang=self._tell_hang,
            meanwhile=lambda pid: self._meanwhile(monitoring, pid),
            complain=self._voice.say,
        )

    def _meanwhile(self, monitoring: Monitoring, pid: int) -> None:
        self._machine.listen()
        monitoring.attend(pid)
        self._notifier.attend()

    def _reports(self, number: int, monitoring: Monitoring) -> NativeReports | None:
        """Return the handler for TensorFlow's reports of failed allocations, or None if no guard could recover."""
        if self._run is None or not self._settings.guarding.guard:
            return None
        name = f"stderr/{number}-memory.log"
        where = f"{shown(self._run)}/{name}"

        def tell(lines: int) -> None:
            self._voice.say(kept_in_words(lines, where))

        memory = MemoryOutcome(self._run.path, number)
        return NativeReports(OwnFile(self._run.path, name), memory, tell, monitoring.read_report, self._native_lines)

    def _examine_safely(self, ended: Ended, around: KernelWatch, stacks: str) -> tuple[tuple[Named, ...], Ending]:
        """Return the faults and the ending. If the examination fails, return only what the exit code shows."""
        try:
            trail = Trail(
                ended.returncode,
                around.oom_kills,
                ended.stderr,
                ended.stopped,
                self._chronicle.of_the_script(),
                self._chronicle.progress(),
                asked=ended.asked,
                hung=ended.hang is not None,
                unkillable=ended.unkillable,
                elsewhere="\n".join([stacks, *around.kernel_lines, limit_in_words(self._machine.environ)]),
                broken_gpu=bool(around.broken_gpu),
                again=self._chronicle.attempt > 1 or self._rehearsed_before,
                went_further=self._rehearsed_before or self._chronicle.went_further(),
            )
            blind = not self._settings.guarding.guard or self._run_dir is None
            return examine(trail, wrapped=self._command.form == "command", blind=blind)
        except Exception as error:
            self._voice.say(f"the script's ending could not be examined: {type(error).__name__}: {error}")
            how = ProcessEnd(ended.returncode).name
            return (), Ending(ended.returncode, how, stopped=ended.stopped, unkillable=ended.unkillable)

    def _conditions(self, ended: Ended, around: KernelWatch) -> Conditions:
        if ended.returncode == 0:
            return Conditions()  # nothing will be changed: do not wait for NVML
        events = self._chronicle.of_the_script()
        return conditions(self._machine, around.broken_gpu, events, self._run_dir, ended.returncode)

    def _tell_hang(self, hang: Hang) -> None:
        self._chronicle.write_hang(hang)
        self._voice.say(hang.in_words())
        self._notifier.send(Notification("hang", hang.in_words(), {"seconds": hang.seconds, "line": hang.line}))

    def _findings_of_script(self) -> ScriptFindings | None:
        if self._settings.notify is None or self._run_dir is None:
            return None
        return ScriptFindings(self._run_dir, self._chronicle.attempt)

    def _notify_of_finding(self, finding: Finding) -> None:
        if finding.severity == "critical":
            self._notifier.send(Notification("finding", in_words(finding), {"finding": as_data(finding)}))

    def _clear_away(self, attempt: Attempt, ending: Ending, action: Action) -> str:
        """End the script's remaining processes before a restart, or let them run if the run is over.

        Returns the reason why the process that saves cannot be killed, or an empty string.
        """
        if ending.unkillable:
            return ending.unkillable
        if isinstance(action, Finish):
            attempt.leave_rest()
            return ""
        return self._end_group(attempt)

    def _end_group(self, attempt: Attempt) -> str:
        """End the workers that the script left behind, because they hold memory that the next attempt needs."""
        since = time.monotonic()
        if attempt.end_group(_SILENT_WAIT_SECONDS):
            return ""
        self._voice.say("waiting for the processes that the script left behind to exit")
        if attempt.end_group(10 * _SILENT_WAIT_SECONDS):
            return ""
        waited, held = time.monotonic() - since, attempt.held()
        if not held:
            self._voice.say(f"they did not exit within {waited:.0f} s; continuing without waiting")
        return held and f"{held}, {waited:.0f} s after SIGKILL"

    def _wait_for_memory(self, signals: Signals) -> None:
        """Wait until the driver has freed the dead process's memory, since a new process would otherwise run out."""
        seconds = self._machine.wait_for_memory(lambda: bool(_called_off_by(signals)))
        if seconds is None:
            self._chronicle.write(GpuMemoryHeld())
            self._voice.say("the GPU's memory is still in use, by the dead script or others; starting anyway")
        elif seconds > 1:
            self._chronicle.write(GpuMemoryBack(seconds=round(seconds, 1)))

    def _prepare(self, action: Restart) -> None:
        """Prepare a restart: make the changes that do not concern the script's environment."""
        lost = self._stdin.rewind()
        if lost:
            self._voice.say(lost)
        if action.change is None:
            return
        self._timings.forget()
        if action.change.name == "older-checkpoint" and self._run_dir is not None:
            set_aside(self._run_dir / "checkpoints", action.change.value)

    def _say_start(self) -> None:
        attempts = self._chronicle.attempt
        python = "" if self._command.form == "command" else f" with {self._python}"
        where = "" if self._run_dir is None else f", run directory {shown(self._run)}"
        again = f", attempt {attempts + 1}" if attempts else ""
        self._voice.say(f"running {self._command.shown}{python}{where}{again}")
        machine = self._settings.machine_at_start
        moved = other_gpus(self._chronicle.machine_before(), machine.snapshot)
        for remark in (*([moved] if moved else ()), *machine.remarks):
            self._voice.say(remark)


def _interrupted(signals: Signals) -> bool:
    """True if only Ctrl-C asked the script to stop. A second press arrives as SIGINT, but is forwarded as SIGTERM."""
    asked = {arrival.signum for arrival in signals.history}
    return signal.SIGINT in asked and signal.SIGTERM not in asked


def _called_off_by(signals: Signals) -> int:
    """Return the signal that asked the run to stop once the script had exited, or 0 if there was none.

    There was no script to forward it to, so it is still in the queue, which contains other signals as well.
    """
    asks = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return next((arrival.signum for arrival in signals.queue if arrival.signum in asks), 0)
