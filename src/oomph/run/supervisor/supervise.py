"""Supervises a run: attempt, diagnose, decide, record, act, until the script finishes or oomph gives up."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from oomph.errors import RunDirectoryError, UsageError
from oomph.files.oomph_folder import folder_of
from oomph.files.opening import OwnFile
from oomph.gpu.memory_in_use import visible
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld, Unkillable, WorkerFailed, WorkersPlaced
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.process.command import Command
from oomph.process.process_group import Terminal
from oomph.run.directory.run_directory import FAILED, RUNNING, RunDirectory
from oomph.run.directory.workers import directory_of, log_of
from oomph.run.hang.limits import Hang, Timings, floor_seconds
from oomph.run.hang.watch import Watch, waits_in_tensorflow
from oomph.run.policy.decide import (
    Action,
    Ending,
    Finish,
    GiveUp,
    Ledger,
    Requeue,
    Restart,
    decide,
    hindered,
    record,
    without_unasked,
)
from oomph.run.policy.first_failure import OF_THE_GANG, concluded, first_cause, outcome_of
from oomph.run.policy.ladder import Conditions
from oomph.run.report.account import restart_line
from oomph.run.report.notification import Notification
from oomph.run.scheduled.peers import Peers
from oomph.run.supervisor.assembly import Assembly
from oomph.run.supervisor.attempt import Attempt, KernelReport
from oomph.run.supervisor.attempt_conditions import KernelWatch, Machine, conditions
from oomph.run.supervisor.chronicle import Chronicle, Judged
from oomph.run.supervisor.closing import Closing, RunOutcome, note, shown
from oomph.run.supervisor.cluster import Cluster, new_cluster
from oomph.run.supervisor.common_checkpoint import ahead, saved_in, share_checkpoints
from oomph.run.supervisor.effects import environ_after, handover, set_aside, surrounding
from oomph.run.supervisor.engine import GangJob, NoRoomError, WorkerEngine
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
from oomph.run.supervisor.storing import Copier, StoreOfRun
from oomph.terminal.amounts import counted
from oomph.terminal.console import Voice

_SILENT_WAIT_SECONDS = 2.0


class Supervisor:
    """Supervises one `oomph run`, and owns the signal handlers and the terminal while the script is alive."""

    def __init__(
        self,
        command: Command,
        python: str,
        run: RunDirectory | None,
        settings: Settings,
        peers: Peers | None = None,
        store: StoreOfRun | None = None,
    ) -> None:
        self._command, self._python, self._run, self._settings = command, python, run, settings
        self._peers = peers
        """The gang of which the scheduler has started this worker, or None if it has none."""
        self._first_rank = 0 if peers is None else peers.rank
        self._run_dir = None if run is None else run.path
        started = settings.workers if run is None or settings.engine is None else run.record.workers
        self._runs = [None if run is None else directory_of(run, rank) for rank in range(started)]
        """The run directories of the workers of the next attempt, by rank; until it is placed, of the one before."""
        self._is_taken = False
        self._chronicle = Chronicle(self._run_dir, 0 if run is None else run.record.attempts)
        self._ledger = Ledger()
        self._machine = Machine(os.environ)
        self._timings, self._floor = Timings(), floor_seconds()
        self._voice, self._stdin = Voice(), StandardInput()
        self._notifier = Notifier(settings.notify, self._voice.say, command.shown, shown(run))
        self._copier = None if store is None or run is None else Copier(run.path, store, self._voice)
        self._native_lines: set[bytes] = set()
        self._said: set[str] = set()
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
            if self._copier is not None:
                self._copier.close(lambda: _called_off_by(signals) == signal.SIGINT)
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
        except (UsageError, RunDirectoryError) as error:
            monitoring.close()
            self._chronicle.close_attempt(error.exit_code)
            note(self._run, self._voice, status=FAILED)
            if self._peers is not None:
                self._peers.announce(outcome_of(self._peers.rank, self._peers.host, Ending(2, ""), Finish(2)))
            raise
        except NoRoomError as error:
            if self._is_taken:
                monitoring.close()
                raise self._taken() from None
            return self._leave(str(error), signals, monitoring)
        try:
            judged, worker = self._judge(gang, around, signals)
        finally:
            peak_rss_bytes = gang.close()
            monitoring.close()
        action = judged.action if self._peers is None else self._concluded(judged, self._peers)
        self._chronicle.write_end(judged, peak_rss_bytes, self._settings.allowed, self._ledger, action)
        self._ledger = record(judged.ending, judged.action, self._ledger)
        if isinstance(judged.action, Restart):
            self._prepare(judged.action, worker.rank)
        if isinstance(action, Restart):
            progress, following = worker.record.progress(), self._chronicle.attempt + 1
            self._voice.say(restart_line(judged.ending, progress, following, action.change))
            self._agree()
        return action

    def _taken(self) -> RunDirectoryError:
        """Return the error that ends this supervisor because another host's has the run directory now."""
        return RunDirectoryError(
            f"{shown(self._run)} has been taken by an oomph run on another host while this one did not respond:"
            " the script was stopped here"
        )

    def _leave(self, reason: str, signals: Signals, monitoring: Monitoring) -> Finish | Requeue:
        """End the run, since there are no machines left for another attempt, or nobody waits for them any more."""
        signum = _called_off_by(signals)
        action = Finish(128 + signum) if signum else Requeue(reason)
        monitoring.close()
        self._voice.say(reason)
        self._chronicle.close_attempt(action.exit_code)
        return action

    def _judge(self, gang: Gang, around: KernelWatch, signals: Signals) -> tuple[Judged, Worker]:
        """Wait until the attempt ends, diagnose it, decide what to do, and clean up before a restart.

        Also returns the worker that ended it.
        """
        fallen = gang.wait()
        if self._is_taken:
            gang.end_groups(_SILENT_WAIT_SECONDS)
            raise self._taken()
        here = around.look_back(gang.pids)
        cause = self._examining.cause_of(fallen, here, gang.finished)
        ended, ending = cause.fallen.ended, replace(cause.ending, interrupted=_interrupted(signals))
        if self._peers is not None:
            ending = _among_others(ending, self._peers.rank, gang.is_called_off, ended.hang)
        there = self._conditions(cause, here)
        action = decide(ending, self._ledger, there, self._settings.allowed)
        if self._peers is not None:
            self._peers.announce(outcome_of(self._peers.rank, self._peers.host, ending, action))
        held = self._clear_away(gang, ending, action)
        if held:
            self._chronicle.write(Unkillable(reason=held))
            self._voice.say(f"the script does not exit: {held}")
        elif isinstance(action, Restart) and self._peers is None:
            if self._settings.engine is None:
                self._wait_for_memory(signals)
            ending = replace(ending, called_off=_called_off_by(signals))
        ending = replace(ending, unkillable=held)
        action = hindered(action, ending)
        kernel = ended.kernel or here
        judged = Judged(ended, cause.names, ending, there, action, kernel.oom_kills, kernel.lines)
        return judged, cause.fallen.worker

    def _concluded(self, judged: Judged, peers: Peers) -> Action:
        """Return what becomes of this worker, given how the others have ended. It never starts again alone."""
        own = outcome_of(peers.rank, peers.host, judged.ending, judged.action)
        others = peers.wait(own)
        cause = first_cause([own, *others])
        for each in sorted([own, *others]):
            if each.exit_code != 0:
                is_cause = each == cause and not each.was_asked
                self._chronicle.write(
                    WorkerFailed(
                        worker=each.rank,
                        returncode=each.returncode,
                        fault=each.fault,
                        cause=is_cause,
                        host=each.host,
                    )
                )
        missing = set(range(peers.workers)) - {each.rank for each in (own, *others)}
        action = concluded(judged.action, judged.ending, own, others, sorted(missing))
        if isinstance(action, Requeue | GiveUp):
            again = "all workers have to start again" if isinstance(action, Requeue) else "no worker should start again"
            self._voice.say(f"{action.reason}: {again} (exit code {action.exit_code})")
        return action

    def _start(self, signals: Signals, terminal: Terminal, monitoring: Monitoring) -> Gang:
        """Start the script, once for each worker. Raises an OomphError if that is impossible."""
        changes, number, workers = self._ledger.changes, self._chronicle.attempt, self._settings.workers
        all_gpus = self._machine.all_gpus if changes or workers > 1 else ()
        seen = visible(all_gpus, environ_after(changes, os.environ, all_gpus)) if workers > 1 else ()
        cluster = new_cluster(workers, [gpu.uuid for gpu in seen]) if workers > 1 else None
        if self._peers is not None and self._peers.addresses:
            cluster = Cluster(self._peers.addresses)
        assembly = None if cluster is None else Assembly(cluster, self._say_once, self._first_rank)
        all_workers, start = (workers, "") if self._peers is None else (self._peers.workers, self._peers.call)
        gang = Gang(signals, self._settings.patience.terminate_seconds, self._tell_hang)
        if self._settings.engine is not None:
            self._place(self._settings.engine, gang, signals)
            return gang

        def meanwhile(_: int) -> None:
            self._meanwhile(monitoring, gang, assembly)

        try:
            for rank, run in enumerate(self._runs):
                record = self._chronicle.script if rank == 0 else self._record_of(run, number)
                watch = Watch(self._timings, self._floor, record.loops, partial(gang.waits, rank))
                environ = surrounding(self._settings, changes, all_gpus, "" if run is None else run.record.entropy)
                of_all = self._first_rank + rank
                environ |= {} if cluster is None else cluster.environ_of(of_all)
                passed = handover(self._settings.guarding, changes, run, number, watch, of_all, all_workers, start)
                passed.write(environ)
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

    def _place(self, engine: WorkerEngine, gang: Gang, signals: Signals) -> None:
        """Start the workers on the machines that the engine finds. Raises an OomphError."""

        def called_off() -> bool:
            self._keep_directory(gang)  # waiting for machines may take minutes
            return self._is_taken or bool(_called_off_by(signals))

        self._form(engine.room(self._settings.fewest_workers, self._settings.workers, self._voice.say, called_off))
        number, runs = self._chronicle.attempt, [run for run in self._runs if run is not None]
        records = [self._chronicle.script, *(self._record_of(run, number) for run in runs[1:])]
        job = GangJob(
            words=self._command.words,
            python=self._settings.python,
            folder=Path.cwd(),
            run_dirs=tuple(run.path for run in runs),
            entropies=tuple(run.record.entropy for run in runs),
            attempt=number,
            guarding=self._settings.guarding,
            changes=self._ledger.changes,
            is_cluster=self._settings.workers > 1,
        )
        assembly = Assembly(engine, self._say_once) if len(runs) > 1 else None
        placed = engine.start(
            job,
            gang.found_hanging,
            lambda: self._attend(gang, assembly),
            self._voice.say,
            called_off,
        )
        self._chronicle.write(WorkersPlaced(hosts=[each.host for each in placed]))
        for rank, (process, watch, _) in enumerate(placed):
            gang.workers.append(Worker(rank, process, watch, records[rank]))

    def _form(self, workers: int) -> None:
        """Change the number of workers for the next attempt. Those that join resume from what the first one has."""
        before, run, is_first = len(self._runs), self._run, self._chronicle.attempt == 1
        if is_first and workers < self._settings.workers:
            self._voice.say(f"starting {workers} of {self._settings.workers} workers: there is no room for more")
        if workers == before or run is None:
            return
        self._runs = [directory_of(run, rank) for rank in range(workers)]
        if not is_first:
            for joining in self._runs[before:]:
                assert joining is not None
                share_checkpoints(run, joining)
            self._voice.say(f"going on with {counted(workers, 'worker')} instead of {before}")
        note(run, self._voice, workers=workers)

    def _record_of(self, run: RunDirectory | None, attempt: int) -> ScriptRecord:
        """Prepare the run directory of a worker, other than the first, for its next attempt."""
        if run is None:
            return ScriptRecord(None, attempt)
        prepare(run.path, attempt)
        return ScriptRecord(run.path, attempt)

    def _terminal_front(self, terminal: Terminal, number: int, monitoring: Monitoring) -> TerminalFront:
        log = None if self._run_dir is None else OwnFile(self._run_dir, f"stderr/{number}.log")
        return TerminalFront(terminal, log, self._reports(number, monitoring), self._voice)

    def _meanwhile(self, monitoring: Monitoring, gang: Gang, assembly: Assembly | None) -> None:
        self._attend(gang, assembly)
        self._machine.listen()
        monitoring.attend(gang.workers[0].attempt.pid)
        if self._peers is not None and (failed := self._peers.failure()) is not None and not gang.is_called_off:
            self._voice.say(f"{failed.who} has failed: ending this worker")
            gang.call_off()

    def _attend(self, gang: Gang, assembly: Assembly | None) -> None:
        """Attend to what does not depend on where the workers are."""
        self._keep_directory(gang)
        self._notifier.attend()
        if self._copier is not None:
            self._copier.attend()
        if assembly is not None:
            assembly.attend(gang.workers)

    def _say_once(self, text: str) -> None:
        """Report what stays true in later attempts, but only once."""
        if text not in self._said:
            self._said.add(text)
            self._voice.say(text)

    def _keep_directory(self, gang: Gang) -> None:
        """End the script at once if an oomph on another host has taken the run directory, which both would write."""
        if self._run is None or self._is_taken or self._run.is_kept():
            return
        self._is_taken = True
        for worker in gang.workers:
            worker.attempt.kill_within(0.0)

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

    def _conditions(self, failure: ExaminedWorker, here: KernelReport) -> Conditions:
        returncode, (rank, *_, record) = failure.fallen.ended.returncode, failure.fallen.worker
        if returncode == 0:
            return Conditions()  # nothing will be changed: do not wait for NVML
        run, workers = self._runs[rank], self._settings.workers
        is_spare = workers == 1 or len(self._machine.gpus) > workers
        broken = here.broken_gpu if is_spare and self._settings.engine is None else ""
        return conditions(self._machine, broken, record.events(), None if run is None else run.path, returncode)

    def _tell_hang(self, rank: int, hang: Hang) -> None:
        worker = rank if self._settings.workers > 1 else None
        text = hang.in_words() if worker is None else f"worker {worker}: {hang.in_words()}"
        self._chronicle.write_hang(hang, worker)
        self._voice.say(text)
        self._notifier.send(Notification("hang", text, {"seconds": hang.seconds, "line": hang.line}))

    def _agree(self) -> None:
        """Set aside the checkpoints that not all workers have, so that all resume from the same step."""
        first = self._first_rank
        root, workers = (
            (self._run_dir, len(self._runs)) if self._peers is None else (self._peers.path, self._peers.workers)
        )
        if root is None or workers == 1:
            return
        saved = [saved_in(folder_of(root, rank) / "checkpoints") for rank in range(workers)]
        for rank, names in list(enumerate(ahead(saved)))[first : first + len(self._runs)]:
            for name in names:
                set_aside(folder_of(root, rank) / "checkpoints", name)
                self._voice.say(f"worker {rank} does not use its checkpoint {name}, which not all workers have")

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
        lost = self._stdin.rewind() if self._peers is None else ""
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
        fewest, most = self._settings.fewest_workers, self._settings.workers
        several = "" if most == 1 else f" as {most if fewest == most else f'{fewest} to {most}'} workers"
        if self._peers is not None:
            several = f" as worker {self._peers.rank} of {self._peers.workers}"
        self._voice.say(f"running {self._command.shown}{several}{python}{where}{again}")
        machine = self._settings.machine_at_start
        moved = other_gpus(self._chronicle.machine_before(), machine.snapshot)
        for remark in (*([moved] if moved else ()), *machine.remarks):
            self._voice.say(remark)


def _among_others(ending: Ending, rank: int, is_called_off: bool, hang: Hang | None) -> Ending:
    """Return the ending of a worker whose peers have their own supervisors.

    One that was ended because of another, or hangs in TensorFlow, only waited for another.
    """
    waited = (is_called_off and not ending.hung) or (hang is not None and waits_in_tensorflow(hang))
    if waited and ending.returncode != 0 and not ending.stopped and not ending.preempted:
        ending = replace(ending, fault="worker-lost")
    is_between = ending.fault in OF_THE_GANG and ending.returncode != 0
    return replace(ending, worker=rank, between_workers=is_between)


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
