"""Exits a process that cannot continue: for a restart, for a later resume, or for good. Runs in the script process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from oomph.exact_step.micro_batch.micro_batch_step import essence
from oomph.journal.events import AtStep, ContextLost, GaveUp, Interrupted, Preempted, RestartRequested, ResumePostponed
from oomph.keras_bridge.runtime.errors import lost_context
from oomph.protocol.reasons import Reason
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity
from oomph.run.policy.decide import GAVE_UP_EXIT_CODE
from oomph.script.kept_micro_batches import Start
from oomph.script.preemption import CTRL_C
from oomph.script.preemption import EXIT_CODE as RESTART_EXIT_CODE


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
    """Exit so that the supervisor restarts the script from the last checkpoint; return if this isn't the owner process.

    This process's state cannot be trusted: its weights may be only partly updated.
    """
    if fits.own_session().is_owner_now():
        fits.note(RestartRequested(fault=fault, reason=reason, micro_batch=micro_batch))
        fits.say(f"{reason}: continuing in a new process")
        fits.background.take(wait=True)  # that checkpoint was taken before the failed step
        leave_process()


def refuse(fits: Fits, site: str, reason: Reason, what: str = "fit", by_itself: bool = False) -> NoReturn:
    """Exit the script and keep its checkpoints, since they do not match what the script trains now.

    Starting over would discard all training so far. Raises SystemExit, since oomph has already printed the reason.

    Args:
        by_itself: True if the training differs from the checkpoint even though the script was not edited.
    """
    fits.note(GaveUp(fault="checkpoint-failure", **reason.as_fields()))
    fits.warn(f"{what} at {site} cannot be resumed: {reason}")
    fits.warn(
        "the checkpoint is kept; undo the change to resume from it, start a new run without --resume,"
        f" or start this {what} over with --start-over"
    )
    if by_itself:
        fits.warn("if the script has no seed: call keras.utils.set_random_seed(1) at its top, and start a new run")
    fits.keep_store_as_it_is()
    raise SystemExit(GAVE_UP_EXIT_CODE)


def leave_for_later(fits: Fits, site: str, reason: str, what: str = "fit") -> NoReturn:
    """Exit the process and keep its checkpoints, which are valid but cannot be used now."""
    fits.note(ResumePostponed(reason=reason))
    fits.warn(f"{what} at {site} cannot be resumed now: {reason}")
    fits.warn("the checkpoint is kept; start the run again with --resume to resume from it")
    fits.keep_store_as_it_is()
    leave_process()


def leave_if_lost(fits: Fits, error: BaseException) -> None:
    """Exit the process after an error that destroyed the GPU context; return normally after any other error."""
    fault = lost_context(error)
    if fault:
        fits.context_lost = fault
        reason = essence(error)
        if fits.own_session().is_owner_now() and fits.session.run_dir is not None:
            fits.note(RestartRequested(fault=fault, reason=f"{fault}: {reason}"))
            fits.say(f"{reason}: the GPU context is lost; continuing in a new process")
            fits.background.take(wait=True)  # it writes a copy that was made in host memory before the error
            leave_process()
        fits.note(ContextLost(fault=fault, reason=reason))


def leave_as_asked(fits: Fits, note_here: Callable[[AtStep], None]) -> NoReturn:
    """Stop training as the signal requests, once everything that can be saved has been saved."""
    if fits.preemption.asked == CTRL_C:
        fits.preemption.interrupt()
    note_here(Preempted(signal=fits.preemption.asked, steps=fits.steps, saved=fits.saved))
    fits.say(f"{fits.preemption.asked}: {fits.saved} of {fits.steps} steps are saved; exiting")
    leave_process()


def tell_interrupted(fits: Fits, note_here: Callable[[AtStep], None]) -> None:
    """Report how many steps of an interrupted fit or loop are saved; the script may continue."""
    if fits.steps and fits.can_save:
        note_here(Interrupted(steps=fits.steps, saved=fits.saved))
        fits.say(f"interrupted: {fits.saved} of {fits.steps} steps are saved")


def leave_process() -> NoReturn:
    """Exit for a restart without raising an exception: a script may catch the exception and save a broken state."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # closed, or replaced by something that is not a stream
    os._exit(RESTART_EXIT_CODE)
