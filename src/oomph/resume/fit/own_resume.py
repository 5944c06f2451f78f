"""Finds the step from which a script resumes a fit by itself.

With its own checkpoints it begins a fit at a later epoch than the first attempt did, by `initial_epoch` or
Keras' BackupAndRestore. oomph then restores nothing, but counts the earlier steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.journal.events import FitStarted, ResumedItself
from oomph.journal.journal import Event, facts, read_journal
from oomph.protocol.progress import Progress
from oomph.protocol.reasons import because
from oomph.resume.fit.running import RunningFit


def tell_own_resume(fit: RunningFit) -> bool:
    """Report a fit that the script resumed by itself, and count its earlier steps; False if it did not."""
    fits, session = fit.fits, fit.fits.own_session()
    if session.handover.attempt == 1 or not session.is_owner_now() or session.run_dir is None or not fit.epoch:
        return False
    earlier = [event for event in read_journal(session.run_dir) if event.attempt < session.handover.attempt]
    number = begun_before(earlier, fit.identity.key, fit.epoch)
    if number is None:
        return False
    per_epoch = getattr(fit.epoch_iterator, "num_batches", None)
    fits.steps = max(fits.steps, steps_before(fits.before, number, fit.epoch, per_epoch))
    reason = because("resumed-itself", epoch=fit.epoch + 1)
    fit.note_here(ResumedItself(key=fit.identity.key, steps=fits.steps, **reason.as_fields()))
    fits.say(f"{reason}, in fit at {fit.identity.site}: oomph restores nothing, and counts on from step {fits.steps}")
    return True


def begun_before(events: Iterable[Event], key: str, epoch: int) -> int | None:
    """The number of the fit in earlier attempts, if any of them began the fit at an earlier epoch; else None."""
    mine = [fit for fit in facts(events, FitStarted) if fit.key == key]
    first = min((epoch if fit.first_epoch is None else fit.first_epoch for fit in mine), default=epoch)
    return mine[-1].fit if first < epoch else None


def steps_before(before: Progress | None, fit: int, epoch: int, per_epoch: int | None) -> int:
    """The steps of the run before an epoch, given the last attempt's progress; 0 if unknown.

    Args:
        per_epoch: the steps of an epoch; None if unknown, as with data of unknown length.
    """
    if before is None or before.fit != fit:
        return 0
    if per_epoch is None:  # an epoch that is over had as many as were done in it
        per_epoch = before.step if epoch == before.epoch + 1 else 0
    return max(0, before.steps - before.step + (epoch - before.epoch) * per_epoch)
