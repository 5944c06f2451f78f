"""Supervises a run: attempt, diagnose, decide, record, act, until the script finishes or oomph gives up."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from oomph.errors import UsageError
from oomph.files.opening import OwnFile
from oomph.gpu.memory_in_use import visible
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld, Unkillable
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.process.command import Command
from oomph.process.process_group import Terminal
from oomph.protocol.progress import Phase
from oomph.run.directory.run_directory import FAILED, RUNNING, RunDirectory
from oomph.run.directory.workers import directory_of, folder_of, log_of
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
from oomph.run.policy.ladder import Conditions
from oomph.run.report.account import restart_line
from oomph.run.report.notification import Notification
from oomph.run.supervisor.attempt import Attempt
from oomph.run.supervisor.attempt_conditions import KernelWatch, Machine, conditions
from oomph.run.supervisor.chronicle import Chronicle, Judged
from oomph.run.supervisor.closing import Closing, RunOutcome, note, shown
from oomph.run.supervisor.cluster import Cluster, new_cluster
from oomph.run.supervisor.common_checkpoint import ahead, saved_in
from oomph.run.supervisor.effects import environ_after, handover, set_aside, surrounding
from oomph.run.supervisor.examining import ExaminedWorker, Examining
from oomph.run.supervisor.front import LogFront, StandardInput, TerminalFront
from oomph.run.supervisor.gang import Gang, Worker
from oomph.run.supervisor.monitoring import Monitoring
from oomph.run.supervisor.native_reports import MemoryOutcome, NativeReports, kept_in_words
from oomph.run.supervisor.notifying import Notifier
from oomph.run.supervisor.script_findings import ScriptFindings
from oomph.run.supervisor.script_record import ScriptRecord, prepare
from oomph.run.supervisor.settings import Settings, other_gpus
from oomph.run.supervisor.stop_requests import Signals
from oomph.terminal.console import Voice

_SILENT_WAIT_SECONDS = 2.0


class Supervisor:
    """Supervises one `oomph run`, and owns the signal handlers and the terminal while the script is alive."""

    def __init__(self, command: Command, python: str, run: RunDirectory | None, settings: Settings) -> None:
        self._command, self._python, self._run, self._settings = command, python, run, settings
        self._run_dir = None if run is None else run.path
        self._runs = [None if run is None else directory_of(run, rank) for rank in range(settings.workers)]
        self._has_looked_for_strategy = False
        self._chronicle = Chronicle(self._run_dir, 0 if run is None else run.record.attempts)
        self._ledger = Ledger()
        self._machine = Machine(os.environ)
        self._timings, self._floor = Timings(), floor_seconds()
        self._voice, self._stdin = Voice(), StandardInput()
        self._notifier = Notifier(settings.notify, self._voice.say, command.shown, shown(run))
        self._native_lines: set[bytes] = set()
        self._examining = Examining(settings, command, run, self._chronicle, self._machine, self._voice)

    def supervise(self) -> RunOutcome:
        """Run the script until the run is over."""
        self._ledger = without_unasked(self._chronicle.close_lost_attempt(), self._settings.allowed)
        self._say_start()
        self._agree()
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
        around = KernelWatch(self._machine)
        monitoring = Monitoring(
            self._run_dir, self._chronicle.write, self._voice, self._notify_of_finding, self._findings_of_script()
        )
        try:
            gang = self._start(signals, terminal, monitoring)
        except UsageError:
            self._chronicle.close_attempt(UsageError.exit_code)
            note(self._run, self._voice, status=FAILED)
            raise
        try:
            judged, worker = self._judge(gang, around, signals)
        finally:
            peak_rss_bytes = gang.close()
            monitoring.close()
        self._chronicle.write_end(judged, peak_rss_bytes, self._settings.allowed, self._ledger)
        self._ledger = record(judged.ending, judged.action, self._ledger)
        if isinstance(judged.action, Restart):
            self._prepare(judged.action, worker.rank)
            progress, following = worker.record.progress(), self._chronicle.attempt + 1
            self._voice.say(restart_line(judged.ending, progress, following, judged.action.change))
            self._agree()
        return judged.action

    def _judge(self, gang: Gang, around: KernelWatch, signals: Signals) -> tuple[Judged, Worker]:
        """Wait until the attempt ends, diagnose it, decide what to do, and clean up before a restart.

        Also returns the worker that ended it.
        """
        fallen = gang.wait()
        around.look_back(gang.pids)
        cause = self._examining.cause_of(fallen, around)
        ended, ending = cause.fallen.ended, replace(cause.ending, interrupted=_interrupted(signals))
        there = self._conditions(cause, around)
        action = decide(ending, self._ledger, there, self._settings.allowed)
        held = self._clear_away(gang, ending, action)
        if held:
            self._chronicle.write(Unkillable(reason=held))
            self._voice.say(f"the script does not exit: {held}")
        elif isinstance(action, Restart):
            self._wait_for_memory(signals)
            ending = replace(ending, called_off=_called_off_by(signals))
        ending = replace(ending, unkillable=held)
        action = hindered(action, ending)
        judged = Judged(ended, cause.names, ending, there, action, around.oom_kills, around.kernel_lines)
        return judged, cause.fallen.worker

    def _start(self, signals: Signals, terminal: Terminal, monitoring: Monitoring) -> Gang:
        """Start the script, once for each worker. Raises UsageError if that is impossible."""
        changes, number, workers = self._ledger.changes, self._chronicle.attempt, self._settings.workers
        all_gpus = self._machine.all_gpus if changes or workers > 1 else ()
        seen = visible(all_gpus, environ_after(changes, os.environ, all_gpus)) if workers > 1 else ()
        cluster = new_cluster(workers, [gpu.uuid for gpu in seen]) if workers > 1 else None
        gang = Gang(signals, self._settings.patience.terminate_seconds, self._tell_hang)

        def meanwhile(_: int) -> None:
            self._meanwhile(monitoring, gang, cluster)

        try:
            for rank, run in enumerate(self._runs):
                record = self._chronicle.script if rank == 0 else self._record_of(run, number)
                watch = Watch(self._timings, self._floor, record.loops, partial(gang.waits, rank))
                environ = surrounding(self._settings, changes, all_gpus, "" if run is None else run.record.entropy)
                environ |= {} if cluster is None else cluster.environ_of(rank)
                handover(self._settings.guarding, changes, run, number, watch, rank).write(environ)
                attempt = Attempt(
                    self._command.argv(self._python),
                    environ,
                    self._terminal_front(terminal, number, monitoring) if rank == 0 else _log_front(run, number),
                    signals,
                    lock_fd=None if run is None else run.lock_fd,
                    patience=self._settings.patience,
                    watch=watch,
                    on_hang=partial(gang.found_hanging, rank),
                    meanwhile=meanwhile,
                    complain=self._voice.say,
                )
                gang.workers.append(Worker(rank, attempt, watch, record))
        except UsageError:
            gang.end_groups(_SILENT_WAIT_SECONDS)
            gang.close()
            raise
        return gang

    def _record_of(self, run: RunDirectory | None, attempt: int) -> ScriptRecord:
        """Prepare the run directory of a worker, other than the first, for its next attempt."""
        if run is None:
            return ScriptRecord(None, attempt)
        prepare(run.path, attempt)
        return ScriptRecord(run.path, attempt)

    def _terminal_front(self, terminal: Terminal, number: int, monitoring: Monitoring) -> TerminalFront:
        log = None if self._run_dir is None else OwnFile(self._run_dir, f"stderr/{number}.log")
        return TerminalFront(terminal, log, self._reports(number, monitoring), self._voice)

    def _meanwhile(self, monitoring: Monitoring, gang: Gang, cluster: Cluster | None) -> None:
        self._machine.listen()
        monitoring.attend(gang.workers[0].attempt.pid)
        self._notifier.attend()
        if cluster is not None and not self._has_looked_for_strategy:
            self._look_for_strategy(gang, cluster)

    def _look_for_strategy(self, gang: Gang, cluster: Cluster) -> None:
        """Say so if the script trains although nobody listens at the worker's address."""
        training = [each for each in gang.workers if each.watch.phase not in (None, Phase.OWN_CODE)]
        if not training:
            return
        self._has_looked_for_strategy = True
        if not cluster.is_served(training[0].rank):
            self._voice.say(
                f"worker {training[0].rank} trains without a strategy for several workers, such as"
                " tf.distribute.MultiWorkerMirroredStrategy: each worker trains by itself"
            )

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

    def _conditions(self, failure: ExaminedWorker, around: KernelWatch) -> Conditions:
        returncode, (rank, *_, record) = failure.fallen.ended.returncode, failure.fallen.worker
        if returncode == 0:
            return Conditions()  # nothing will be changed: do not wait for NVML
        run, workers = self._runs[rank], self._settings.workers
        is_spare = workers == 1 or len(self._machine.gpus) > workers
        broken = around.broken_gpu if is_spare else ""
        return conditions(self._machine, broken, record.events(), None if run is None else run.path, returncode)

    def _tell_hang(self, rank: int, hang: Hang) -> None:
        worker = rank if self._settings.workers > 1 else None
        text = hang.in_words() if worker is None else f"worker {worker}: {hang.in_words()}"
        self._chronicle.write_hang(hang, worker)
        self._voice.say(text)
        self._notifier.send(Notification("hang", text, {"seconds": hang.seconds, "line": hang.line}))

    def _agree(self) -> None:
        """Set aside the checkpoints that not all workers have, so that all resume from the same step."""
        if self._run_dir is None or self._settings.workers == 1:
            return
        for rank, names in enumerate(ahead([saved_in(folder) for folder in self._folders()])):
            for name in names:
                set_aside(folder_of(self._run_dir, rank) / "checkpoints", name)
                self._voice.say(f"worker {rank} does not use its checkpoint {name}, which not all workers have")

    def _folders(self) -> list[Path]:
        return [run.path / "checkpoints" for run in self._runs if run is not None]

    def _findings_of_script(self) -> ScriptFindings | None:
        if self._settings.notify is None or self._run_dir is None:
            return None
        return ScriptFindings(self._run_dir, self._chronicle.attempt)

    def _notify_of_finding(self, finding: Finding) -> None:
        if finding.severity == "critical":
            self._notifier.send(Notification("finding", in_words(finding), {"finding": as_data(finding)}))

    def _clear_away(self, gang: Gang, ending: Ending, action: Action) -> str:
        """End the script's remaining processes before a restart, or let them run if the run is over.

        Returns the reason why the process that saves cannot be killed, or an empty string.
        """
        if ending.unkillable:
            return ending.unkillable
        if isinstance(action, Finish) and (len(gang.workers) == 1 or action.exit_code == 0):
            gang.leave_rest()
            return ""
        return self._end_group(gang)

    def _end_group(self, gang: Gang) -> str:
        """End the workers that the script left behind, because they hold memory that the next attempt needs."""
        since = time.monotonic()
        if gang.end_groups(_SILENT_WAIT_SECONDS):
            return ""
        self._voice.say("waiting for the processes that the script left behind to exit")
        if gang.end_groups(10 * _SILENT_WAIT_SECONDS):
            return ""
        waited, held = time.monotonic() - since, gang.held()
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

    def _prepare(self, action: Restart, rank: int) -> None:
        """Prepare a restart: make the changes that do not concern the script's environment."""
        lost = self._stdin.rewind()
        if lost:
            self._voice.say(lost)
        if action.change is None:
            return
        self._timings.forget()
        if action.change.name == "older-checkpoint" and self._run_dir is not None:
            set_aside(folder_of(self._run_dir, rank) / "checkpoints", action.change.value)

    def _say_start(self) -> None:
        attempts = self._chronicle.attempt
        python = "" if self._command.form == "command" else f" with {self._python}"
        where = "" if self._run_dir is None else f", run directory {shown(self._run)}"
        again = f", attempt {attempts + 1}" if attempts else ""
        several = f" as {self._settings.workers} workers" if self._settings.workers > 1 else ""
        self._voice.say(f"running {self._command.shown}{several}{python}{where}{again}")
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


def _log_front(run: RunDirectory | None, attempt: int) -> LogFront:
    return LogFront(None if run is None else OwnFile(run.path, log_of(attempt)))
