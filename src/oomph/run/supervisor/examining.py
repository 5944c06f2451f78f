"""Examines how the processes of an attempt ended, and finds the one that explains the others."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oomph.explain.evidence.memory import limit_in_words
from oomph.files.oomph_folder import folder_of
from oomph.journal.events import WorkerFailed
from oomph.process.command import Command
from oomph.protocol.handover import Injection
from oomph.run.directory.run_directory import RunDirectory
from oomph.run.directory.workers import log_of
from oomph.run.policy.decide import Ending
from oomph.run.policy.examination import Named, Trail, examine
from oomph.run.policy.first_failure import CONSEQUENCES, OF_THE_GANG, WorkerEnding, cause_of, left_alone
from oomph.run.supervisor.attempt import KernelReport
from oomph.run.supervisor.attempt_conditions import Machine
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.closing import shown_path
from oomph.run.supervisor.gang import Fallen, Worker
from oomph.run.supervisor.settings import Settings
from oomph.terminal.console import Voice
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.message import shown_line

_MOST_LAST_WORDS = 12
"""The most lines to show of what a failed worker has printed."""


class ExaminedWorker(NamedTuple):
    """A worker that has ended, and what the examination has found."""

    fallen: Fallen
    names: tuple[Named, ...]
    """The faults found, most likely first."""
    ending: Ending


class Examining:
    """Examines the endings of one run's processes."""

    def __init__(
        self,
        settings: Settings,
        command: Command,
        run: RunDirectory | None,
        chronicle: Chronicle,
        machine: Machine,
        voice: Voice,
    ) -> None:
        self._settings, self._run, self._chronicle = settings, run, chronicle
        self._machine, self._voice = machine, voice
        self._is_wrapped = command.form == "command"
        injection = Injection.read()
        self._rehearsed_before = injection is not None and bool(injection.earlier)

    def cause_of(self, fallen: Sequence[Fallen], here: KernelReport, finished: Sequence[Worker] = ()) -> ExaminedWorker:
        """Return the ending that explains the others. Of several workers, record all failures, and show this one's.

        Args:
            fallen: the workers that have failed, or one of those that have not.
            here: what the kernel of this machine has reported meanwhile.
            finished: the workers that had ended well before the first failure.
        """
        examined = [self._examined(each, here) for each in fallen]
        endings = [WorkerEnding(each.fallen.worker.rank, each.ending, each.fallen.is_frozen) for each in examined]
        cause = cause_of(endings)
        found = examined[endings.index(cause)]
        as_asked = cause.ending.stopped or cause.ending.preempted or cause.ending.returncode == 0
        if self._settings.workers > 1 and not as_asked:
            for each in endings:
                code, fault = each.ending.returncode, each.ending.fault
                self._chronicle.write(WorkerFailed(worker=each.rank, returncode=code, fault=fault, cause=each is cause))
            self._show_last_words(found)
        if cause.ending.fault in CONSEQUENCES and not as_asked:
            after = [(f"worker {each.rank}", _steps_of(each)) for each in finished]
            alone = left_alone(f"worker {cause.rank}", after)
            found = found._replace(ending=replace(found.ending, gave_up=found.ending.gave_up or alone))
        return found

    def _examined(self, fallen: Fallen, here: KernelReport) -> ExaminedWorker:
        """Return a worker's faults and its ending. If the examination fails, return only what the exit code shows."""
        ended = fallen.ended
        try:
            blind = not self._settings.guarding.guard or self._run is None
            names, ending = examine(self._trail(fallen, here), wrapped=self._is_wrapped, blind=blind)
        except Exception as error:
            self._voice.say(f"the script's ending could not be examined: {type(error).__name__}: {error}")
            how = ProcessEnd(ended.returncode).name
            names, ending = (), Ending(ended.returncode, how, stopped=ended.stopped, unkillable=ended.unkillable)
        if self._settings.workers > 1:
            ending = replace(ending, worker=fallen.worker.rank, between_workers=ending.fault in OF_THE_GANG)
        return ExaminedWorker(fallen, names, ending)

    def _trail(self, fallen: Fallen, here: KernelReport) -> Trail:
        ended, (_, _, watch, record) = fallen.ended, fallen.worker
        kernel = ended.kernel or here
        elsewhere = [watch.crash_stacks(), *kernel.lines, limit_in_words(self._machine.environ)]
        return Trail(
            ended.returncode,
            kernel.oom_kills,
            ended.stderr,
            ended.stopped,
            record.events(),
            record.progress(),
            asked=ended.asked,
            hung=ended.hang is not None or fallen.is_frozen,
            unkillable=ended.unkillable,
            lost=ended.is_lost,
            elsewhere="\n".join(elsewhere),
            broken_gpu=bool(kernel.broken_gpu),
            again=self._chronicle.attempt > 1 or self._rehearsed_before,
            went_further=self._rehearsed_before or self._chronicle.went_further(),
        )

    def _show_last_words(self, failed: ExaminedWorker) -> None:
        """Print the last lines of a worker that failed with an error and whose output goes to its log."""
        rank, ended = failed.fallen.worker.rank, failed.fallen.ended
        lines = ended.stderr.decode(errors="replace").splitlines()[-_MOST_LAST_WORDS:]
        if rank == 0 or not lines or ended.returncode == -signal.SIGKILL or failed.ending.hung:
            return
        log = ""
        if self._run is not None:
            log = f", all in {shown_path(folder_of(self._run.path, rank) / log_of(self._chronicle.attempt))}"
        self._voice.say(f"the last lines of worker {rank}{log}:")
        for line in lines:
            self._voice.say(f"  | {shown_line(line)}")


def _steps_of(worker: Worker) -> int:
    progress = worker.record.progress()
    return 0 if progress is None else progress.steps
