"""Ends a training that cannot continue: for a restart, for a later resume, or for good. Runs in the script process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from oomph.exact_step.micro_batch.micro_batch_step import essence
from oomph.journal.events import AtStep, ContextLost, GaveUp, Interrupted, Preempted, RestartRequested, ResumePostponed
from oomph.keras_bridge.runtime.errors import as_out_of_memory, lost_context, lost_worker
from oomph.keras_bridge.workers import spans_workers
from oomph.protocol.reasons import Reason
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity
from oomph.run.policy.decide import GAVE_UP_EXIT_CODE
from oomph.run.report.profiled import INTERRUPTED
from oomph.script.ending import TrainingEnding
from oomph.script.kept_micro_batches import Start
from oomph.script.preemption import CTRL_C
from oomph.script.preemption import EXIT_CODE as RESTART_EXIT_CODE


class ScriptEnding:
    """Ends a training in a script by exiting the process; the supervisor takes it from there.

    Args:
        say: prints a line.
    """

    owns_the_group = True

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def restart(self, reason: str, saved: int) -> NoReturn:
        """Exit so that the supervisor restarts the script from the last checkpoint."""
        self._say(f"{reason}: continuing in a new process")
        _leave_process()

    def refuse(self, what: str, site: str, reason: str, by_itself: bool) -> NoReturn:
        """Exit the script. Raises SystemExit, since oomph has already printed the reason."""
        self._say(f"{what} at {site} cannot be resumed: {reason}")
        self._say(
            "the checkpoint is kept; undo the change to resume from it, start a new run without --resume,"
            f" or start this {what} over with --start-over"
        )
        if by_itself:
            self._say("if the script has no seed: call keras.utils.set_random_seed(1) at its top, and start a new run")
        raise SystemExit(GAVE_UP_EXIT_CODE)

    def postpone(self, what: str, site: str, reason: str) -> NoReturn:
        """Exit the process; `--resume` can use the checkpoints later."""
        self._say(f"{what} at {site} cannot be resumed now: {reason}")
        self._say("the checkpoint is kept; start the run again with --resume to resume from it")
        _leave_process()

    def obey(self, signal_name: str, steps: int, saved: int) -> NoReturn:
        """Exit the process, which a scheduler may start again."""
        self._say(f"{signal_name}: {saved:,} of {steps:,} steps are saved; exiting")
        _leave_process()


def _leave_process() -> NoReturn:
    """Exit for a restart without raising an exception: a script may catch the exception and save a broken state."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # closed, or replaced by something that is not a stream
    os._exit(RESTART_EXIT_CODE)


def _ending(fits: Fits) -> TrainingEnding:
    return fits.session.ending or ScriptEnding(fits.warn)


def go_back_or_give_up(
    fits: Fits, fit: FitIdentity, error: BaseException, phase: str, reason: str, begin: Start | None
) -> NoReturn:
    """Restart from the checkpoint if that can help; otherwise raise the user's error.

    Args:
        phase: the part of the step that failed.
        begin: the smaller micro-batch for the next process to start with, if any.
    """
    if begin is not None:
        fits.remember_micro_batch(fit, begin)
    if begin is not None or phase in ("commit", "input"):
        restart_from_checkpoint(fits, reason, "device-oom", None if begin is None else begin.samples)
    give_up(fits, error, reason)


def give_up(fits: Fits, error: BaseException, reason: str) -> NoReturn:
    """Raise the user's error, since restarting would not help."""
    fits.note(GaveUp(fault="device-oom", reason=reason))
    raise error


def restart_from_checkpoint(fits: Fits, reason: str, fault: str, micro_batch: int | None = None) -> None:
    """End the training here, to be resumed in a new process; return if this isn't the owner process.

    This process's state cannot be trusted: its weights may be only partly updated.
    """
    if fits.own_session().is_owner_now():
        fits.note(RestartRequested(fault=fault, reason=reason, micro_batch=micro_batch))
        _restart(fits, reason)


def _restart(fits: Fits, reason: str) -> NoReturn:
    checkpoints = getattr(fits.running, "checkpoints", None)
    if checkpoints is not None:
        checkpoints.settle(wait=True)  # what is being written is a copy in host memory, made before the failed step
    fits.keep_store_as_it_is()
    _ending(fits).restart(reason, fits.saved)


def refuse(fits: Fits, fit: FitIdentity, reason: Reason, what: str = "fit", by_itself: bool = False) -> NoReturn:
    """End the training and keep its checkpoints, since they do not match what is trained now.

    Starting over would discard all training so far.

    Args:
        by_itself: True if the training differs from the checkpoint even though the script was not edited.
    """
    fits.note(GaveUp(fault="checkpoint-failure", **reason.as_fields()))
    fits.turn_away(fit)
    _ending(fits).refuse(what, fit.site, str(reason), by_itself)


def leave_for_later(fits: Fits, fit: FitIdentity, reason: str, what: str = "fit") -> NoReturn:
    """End the training and keep its checkpoints, which are valid but cannot be used now."""
    fits.note(ResumePostponed(reason=reason))
    fits.turn_away(fit)
    _ending(fits).postpone(what, fit.site, reason)


def leave_if_lost(fits: Fits, error: BaseException) -> None:
    """End the training after an error that destroyed the GPU context; return normally after any other error."""
    fault = lost_context(error)
    if fault:
        fits.context_lost = fault
        reason = essence(error)
        if fits.own_session().is_owner_now() and fits.session.run_dir is not None:
            fits.note(RestartRequested(fault=fault, reason=f"{fault}: {reason}"))
            _restart(fits, f"{reason}: the GPU context is lost")
        fits.note(ContextLost(fault=fault, reason=reason))


def leave_for_the_others(fits: Fits, strategy: Any, error: BaseException) -> None:
    """End a training of several workers after an error that only a new start of all of them can mend.

    If this worker ran out of memory, the others wait in the step that failed here, and would wait forever if the script
    caught the error and went on. If another worker is lost, TensorFlow refuses all collective operations from then on.
    Returns normally after any other error.
    """
    if not spans_workers(strategy):
        return
    if as_out_of_memory(error) is not None:
        restart_from_checkpoint(fits, "out of memory in a step that all workers take together", "device-oom")
    elif lost_worker(error):
        restart_from_checkpoint(fits, "another worker is lost", "worker-lost")


def leave_for_a_common_checkpoint(fits: Fits) -> None:
    """Start all workers again if this one cannot read the checkpoint that all were to resume from.

    The supervisor then chooses one that all of them have. Returns normally if nothing is wrong.
    """
    if fits.lacks_common:
        restart_from_checkpoint(fits, "a checkpoint of all workers cannot be read here", "checkpoint-failure")


def leave_as_asked(fits: Fits, note_here: Callable[[AtStep], None]) -> NoReturn:
    """Stop training as the signal requests, once everything that can be saved has been saved."""
    if fits.preemption.asked == CTRL_C:
        fits.preemption.interrupt()
    fits.profile.end(INTERRUPTED)
    note_here(Preempted(signal=fits.preemption.asked, steps=fits.steps, saved=fits.saved))
    _ending(fits).obey(fits.preemption.asked, fits.steps, fits.saved)


def tell_interrupted(fits: Fits, note_here: Callable[[AtStep], None]) -> None:
    """Report how many steps of an interrupted fit or loop are saved; the script may continue."""
    if fits.steps and fits.can_save:
        note_here(Interrupted(steps=fits.steps, saved=fits.saved))
        in_cell = fits.session.ending is not None and fits.saved
        how = (
            "; to resume, restart the kernel: here, the cell would train all epochs again, from the current weights"
            if in_cell
            else ""
        )
        fits.say(f"interrupted: {fits.saved:,} of {fits.steps:,} steps are saved{how}")
