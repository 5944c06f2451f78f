"""How a process ends that cannot go on: for a new one, for later, or for good. In the script's process."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from oomph.recovery.policy.policy import GAVE_UP_EXIT_CODE
from oomph.recovery.script.preemption import EXIT_CODE as RESTART_EXIT_CODE
from oomph.tensorflow.micro_batch.micro_batch_step import essence
from oomph.tensorflow.runtime.errors import lost_context
from oomph.tensorflow.training.fits import Fits


def go_back_or_give_up(fits: Fits, error: BaseException, reason: str, can_restart: bool) -> NoReturn:
    """End the process so that the supervisor restarts it from the checkpoint; else the user's own error goes on."""
    if can_restart:
        restart_from_checkpoint(fits, reason, "device-oom")
    fits.note("gave-up", fault="device-oom", reason=reason)
    raise error


def restart_from_checkpoint(fits: Fits, reason: str, fault: str) -> None:
    """End the process so that the supervisor restarts it from the last checkpoint; returns in all but the owner.

    What the process holds is not to be trusted: the weights may be half updated.
    """
    if fits.own_session().is_owner_now():
        fits.note("restart-requested", fault=fault, reason=reason)
        fits.say(f"{reason}: going on in a new process")
        fits.background.take(wait=True)  # it is of a border before the step that failed
        leave_process()


def refuse(fits: Fits, site: str, reason: str, what: str = "fit", by_itself: bool = False) -> NoReturn:
    """End the script with its checkpoints intact: what it trains now is not what they are of.

    To begin anew would lose what was trained. SystemExit, since the words of oomph are all there is to say.

    Args:
        by_itself: whether the script differs from the checkpoint although it was not edited.
    """
    fits.note("gave-up", fault="checkpoint-failure", reason=reason)
    fits.say(f"{what} at {site} cannot be resumed: {reason}")
    fits.say(
        "the checkpoint is kept; undo the change to go on with it, start anew without --resume,"
        f" or begin this {what} anew with --start-over"
    )
    if by_itself:
        fits.say("if the script has no seed: call keras.utils.set_random_seed(1) at its top, and start anew")
    fits.keep_store_as_it_is()
    raise SystemExit(GAVE_UP_EXIT_CODE)


def leave_for_later(fits: Fits, site: str, reason: str, what: str = "fit") -> NoReturn:
    """End the process with its checkpoints intact: they are right, and could not be used now."""
    fits.note("resume-postponed", reason=reason)
    fits.say(f"{what} at {site} cannot be resumed now: {reason}")
    fits.say("the checkpoint is kept; start the run again with --resume to go on with it")
    fits.keep_store_as_it_is()
    leave_process()


def leave_if_lost(fits: Fits, error: BaseException) -> None:
    """After an error that took the GPU context with it, only a new process can go on; returns for any other."""
    fault = lost_context(error)
    if fault:
        fits.context_lost = fault
        reason = essence(error)
        if fits.own_session().is_owner_now() and fits.session.run_dir is not None:
            fits.note("restart-requested", fault=fault, reason=f"{fault}: {reason}")
            fits.say(f"{reason}: the GPU context is lost; going on in a new process")
            fits.background.take(wait=True)  # a copy in the host's memory, of before the error
            leave_process()
        fits.note("context-lost", fault=fault, reason=reason)


def leave_process() -> NoReturn:
    """End this process for a new one. No exception: scripts catch them, and save what they should not."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # closed, or replaced by something that is none
    os._exit(RESTART_EXIT_CODE)
