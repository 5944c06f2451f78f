"""Runs the workers of one attempt, or the one process that most runs have: the first failure ends all of them."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from oomph.run.hang.culprit import Standing, culprit
from oomph.run.hang.limits import Hang
from oomph.run.hang.watch import waits_in_tensorflow
from oomph.run.supervisor.attempt import Ended, attend
from oomph.run.supervisor.engine import WorkerProcess, WorkerWatch
from oomph.run.supervisor.script_record import ScriptRecord
from oomph.run.supervisor.stop_requests import Signals

_GRACE_SECONDS = 0.2
"""The time for which others may fail on their own after the first failure, which may be only a consequence.

A driver can take a while to release the memory of a dead process, whose peers notice the closed connection at once.
"""
_TERMINATE_SECONDS = 0.3
"""The time from SIGTERM to SIGKILL for the workers that are left. With the grace, all are gone within a second."""


class Worker(NamedTuple):
    """One process of an attempt, and what is known of it."""

    rank: int
    attempt: WorkerProcess
    watch: WorkerWatch
    record: ScriptRecord


class Fallen(NamedTuple):
    """A worker that has ended."""

    worker: Worker
    ended: Ended
    is_frozen: bool = False
    """True if the process was stopped, as by SIGSTOP, when another worker failed."""
    is_sent: bool = False
    """True if it ended because it was asked to, after another worker had failed."""


class Gang:
    """The workers of one attempt. One process alone is a gang of one.

    Args:
        signals: the supervisor's signals.
        stop_seconds: how long the other workers may take once one has ended because somebody asked it to.
        on_hang: called with the rank of the worker that hangs, before any is ended.
    """

    def __init__(self, signals: Signals, stop_seconds: float, on_hang: Callable[[int, Hang], None]) -> None:
        self.workers: list[Worker] = []
        self.is_called_off = False
        """True if the workers were ended because one on another machine had failed."""
        self._signals, self._stop_seconds, self._on_hang = signals, stop_seconds, on_hang
        self._over: list[Fallen] = []
        """The workers that have ended, in the order in which they did."""
        self._failed_at: float | None = None
        """The monotonic time of the first failure."""
        self._ended_at: float | None = None
        """The monotonic time at which the workers that were left were asked to end."""
        self._frozen: frozenset[int] = frozenset()
        """The ranks of the workers whose processes were stopped at that time."""
        self._hanging: tuple[Worker, Hang] | None = None

    def wait(self) -> list[Fallen]:
        """Wait until all workers have ended, and return those that failed on their own, or the first if none did."""
        running = list(self.workers)
        while running:
            attend([worker.attempt for worker in running], self._signals)
            for worker in [each for each in running if not each.attempt.is_running]:
                running.remove(worker)
                self._note_end(worker, running)
            self._end_the_rest(running)
        if self._hanging is not None:
            cause, hang = self._hanging
            return [each._replace(ended=each.ended._replace(hang=hang)) for each in self._over if each.worker is cause]
        failed = [each for each in self._over if each.ended.returncode != 0 and not each.is_sent]
        return failed or [each for each in self._over if each.worker is self.workers[0]]

    @property
    def finished(self) -> list[Worker]:
        """The workers that had ended with exit code 0 before the first failure, in the order in which they did."""
        before = itertools.takewhile(lambda each: each.ended.returncode == 0, self._over)
        return [each.worker for each in before if not each.ended.stopped]

    def waits(self, rank: int) -> bool:
        """True if a worker waits, in a step that all take together, while another looks for a size that fits."""
        return any(worker.watch.is_recovering for worker in self.workers if worker.rank != rank)

    def found_hanging(self, rank: int, hang: Hang) -> None:
        """Find the worker for which the others wait, report it, and end all."""
        if self._failed_at is not None:
            return  # they are being ended
        standings = [self._standing(worker, hang, worker.rank == rank) for worker in self._running()]
        cause = culprit(standings)
        self._hanging = self.workers[cause.rank], cause.hang
        self._on_hang(cause.rank, cause.hang)
        self._failed_at = time.monotonic() - _GRACE_SECONDS

    def call_off(self) -> None:
        """End all workers, since a worker of the same gang on another machine has failed."""
        if not self.is_called_off:
            self.is_called_off = True
            self._end(self._running())

    @property
    def pids(self) -> set[int]:
        """The PIDs of all workers, and of the processes in them that send heartbeats."""
        return {pid for worker in self.workers for pid in worker.attempt.pids}

    def end_groups(self, seconds: float) -> bool:
        """Kill whatever the workers have left behind. Return True if that freed its memory in time."""
        until = time.monotonic() + seconds
        ended = [worker.attempt.end_group(max(0.0, until - time.monotonic())) for worker in self.workers]
        return all(ended)

    def held(self) -> str:
        """Explain why a process that saves checkpoints survives SIGKILL, or return an empty string if all are gone."""
        return next(filter(None, (worker.attempt.held() for worker in self.workers)), "")

    def leave_rest(self) -> None:
        """Let the processes that the workers left running continue, as they would without oomph."""
        for worker in self.workers:
            worker.attempt.leave_rest()

    def close(self) -> int:
        """Reap the processes, and return the peak memory of the largest, in bytes."""
        peaks = [0]
        for worker in self.workers:
            peaks.append(worker.attempt.close())
            worker.watch.close()
        return max(peaks)

    def _running(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.attempt.is_running]

    def _note_end(self, worker: Worker, running: Sequence[Worker]) -> None:
        ended, now = worker.attempt.ended(), time.monotonic()
        is_frozen = worker.rank in self._frozen
        self._over.append(Fallen(worker, ended, is_frozen, not is_frozen and self._is_sent(ended, now)))
        if ended.stopped or ended.asked:
            for other in running:
                other.attempt.kill_within(self._stop_seconds)
        elif ended.returncode != 0 and self._failed_at is None:
            self._failed_at = now

    def _is_sent(self, ended: Ended, now: float) -> bool:
        """True if a process ended because of our signals. One that was killed before we sent SIGKILL did not."""
        if self._ended_at is None or ended.is_lost:
            return False
        return ended.returncode != -signal.SIGKILL or now >= self._ended_at + _TERMINATE_SECONDS

    def _end_the_rest(self, running: Sequence[Worker]) -> None:
        """End the workers that are left after the first failure, since none can go on without the others."""
        now = time.monotonic()
        alone, is_due = len(self.workers) == 1, self._failed_at is not None and now >= self._failed_at + _GRACE_SECONDS
        if alone or not is_due or self._ended_at is not None:
            return
        self._ended_at = now
        self._end(running)

    def _end(self, running: Sequence[Worker]) -> None:
        """End workers. A stopped one is killed at once: SIGTERM would first wake it, and it would train on."""
        self._frozen = frozenset(worker.rank for worker in running if worker.attempt.is_stopped)
        for worker in running:
            if worker.rank in self._frozen:
                worker.attempt.kill_within(0.0)
            else:
                worker.attempt.end_within(_TERMINATE_SECONDS)

    def _standing(self, worker: Worker, found: Hang, is_found: bool) -> Standing:
        """Describe where a worker stands; `found` is the hang of the one that was silent for too long."""
        progress, attempt = worker.record.progress(), worker.attempt
        stands = found if is_found else worker.watch.standing(attempt.pid, found.limit_seconds)
        steps = 0 if progress is None else progress.steps
        return Standing(worker.rank, stands, steps, attempt.is_stopped, waits_in_tensorflow(stands))
