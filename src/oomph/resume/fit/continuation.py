"""Decides what happens to a fit that begins: it trains, resumes, returns at once, or is refused.

Runs in the script process, at the start of `fit`.
"""

from __future__ import annotations

import functools
from pathlib import Path

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.store import Record
from oomph.journal.events import AnotherWay, CheckpointRefused, FitFinished, TrainsAgain
from oomph.journal.journal import pairs, read_journal
from oomph.protocol.reasons import because
from oomph.resume.fit.fit import Fit
from oomph.resume.training import leaving
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import KnownState, Recognised, Verdict, recognise


def settle(fits: Fits, fit: Fit) -> None:
    """Decide what happens to the fit, and its number in the run."""
    record = fits.known_state(fit.identity, fit.beginning.script_was_edited)
    known = None if record is None else _known(fit, record)
    found = recognise(known, fits.came_another_way)
    fits.came_another_way = fits.came_another_way or found.another_way
    fit.identity = fits.number(fit.identity, record if found.verdict in (Verdict.RESUME, Verdict.RETURN) else None)
    match found.verdict:
        case Verdict.REFUSE:
            reason = because("another-training", what="fit", differences=found.reason)
            leaving.refuse(fits, fit.identity.site, reason, by_itself=known is not None and not known.edited)
        case Verdict.RETURN:
            fit.returns = True
        case Verdict.RESUME:
            checkpoint = _newest_credible(fits, fit)
            if checkpoint is not None:
                fit.resume_from(checkpoint)
                if _was_finished(fits, fit):
                    _tell_again(fits, fit, "its last checkpoint")
        case Verdict.TRAIN:
            _tell_difference(fits, fit, found, record)


def _newest_credible(fits: Fits, fit: Fit) -> Checkpoint | None:
    checkpoint = fits.checkpoint_of(fit.identity.ordinal)
    while checkpoint is not None:
        trouble = fit.cannot_be_of_it(checkpoint)
        if trouble is None:
            break
        fits.note(CheckpointRefused(name=checkpoint.name, reason=trouble))
        fits.say(f"checkpoint {checkpoint.name} is not used: {trouble}")
        checkpoint = fits.checkpoint_before(checkpoint)
    return checkpoint


def _known(fit: Fit, record: Record) -> KnownState:
    return KnownState(
        finished=record.finished,
        edited=fit.beginning.script_was_edited(record),
        same_fingerprint=record.meta.fingerprint == fit.identity.fingerprint,
        differences=lambda *groups: fit.beginning.changes(record, *groups),
    )


def _tell_difference(fits: Fits, fit: Fit, found: Recognised, record: Record | None) -> None:
    site = fit.identity.site
    if not found.reason:
        if _was_finished(fits, fit):
            _tell_again(fits, fit, "its beginning")
            return
        others = fits.interrupted_sites()
        if others:
            fits.say(
                f"fit at {site} trains from the beginning: the checkpoints are of another fit, at {', '.join(others)}"
            )
        return
    if found.another_way:
        reason = because("another-path", what="fit", site=site, differences=found.reason)
        fits.note(AnotherWay(key=fit.identity.key, fit=fit.identity.ordinal, **reason.as_fields()))
        fits.say(f"{reason}: it trains from the beginning")
    else:
        was = None if record is None else record.position.fit
        fits.note(TrainsAgain(key=fit.identity.key, fit=fit.identity.ordinal, reason=found.reason, edited_fit=was))
        fits.say(f"fit at {site} trains again, since it differs from what was trained: {found.reason}")


def _was_finished(fits: Fits, fit: Fit) -> bool:
    """True if an earlier attempt finished the fit but kept no end state."""
    session = fits.own_session()
    run_dir, attempt = session.run_dir, session.handover.attempt
    if run_dir is None or attempt == 1 or not session.is_owner_now():
        return False
    return fit.identity.key in _not_kept(run_dir, attempt)


def _tell_again(fits: Fits, fit: Fit, origin: str) -> None:
    fits.say_once(
        f"fit at {fit.identity.site} trains again from {origin}: an earlier attempt finished it, but its end state was"
        " too expensive to keep"
    )


@functools.cache
def _not_kept(run_dir: Path, attempt: int) -> frozenset[str | None]:
    """The keys of the fits that earlier attempts finished, and whose end states were too expensive to keep."""
    finished = pairs(read_journal(run_dir), FitFinished)
    return frozenset(fit.key for event, fit in finished if event.attempt < attempt and fit.too_dear)
