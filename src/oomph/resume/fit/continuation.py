"""Decides what happens to a fit that is about to start: it trains, resumes, returns immediately, or is refused.

A fit that an earlier attempt finished returns as soon as everything that it changed is restored. Runs in the script
process, at the start of `fit`.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.checkpoint.store import Record
from oomph.errors import CheckpointError
from oomph.journal.events import (
    AnotherWay,
    CheckpointRefused,
    CheckpointSkipped,
    RepeatCompared,
    Resumed,
    TrainsAgain,
    TrustedResult,
)
from oomph.keras_bridge import models
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.protocol.reasons import Reason, as_data, because, in_one_line, reasons_from
from oomph.resume.fit import callbacks, model_state, written_files
from oomph.resume.fit.fit import Fit
from oomph.resume.fit.validation_data import READ_AHEAD
from oomph.resume.state import iterators, training_state
from oomph.resume.training import leaving
from oomph.resume.training.data_position import used_in
from oomph.resume.training.fit_objects import from_meta
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import KnownState, Recognised, Verdict, recognise
from oomph.resume.training.retaking import Watched


def settle(fits: Fits, fit: Fit) -> None:
    """Decide what happens to the fit, and assign its number in the run."""
    record = fits.known_state(fit.identity, fit.beginning.script_was_edited)
    known = None if record is None else _known(fit, record)
    found = recognise(known, fits.took_another_path)
    fits.took_another_path = fits.took_another_path or found.another_path
    fit.identity = fits.number(fit.identity, record if found.verdict in (Verdict.RESUME, Verdict.RETURN) else None)
    match found.verdict:
        case Verdict.REFUSE:
            reason = because("another-training", what="fit", differences=found.reason)
            leaving.refuse(fits, fit.identity, reason, by_itself=known is not None and not known.edited)
        case Verdict.RETURN:
            fit.returns = True
        case Verdict.RESUME:
            checkpoint = _newest_credible(fits, fit)
            if checkpoint is not None:
                fit.resume_from(checkpoint)
                _tell_skipped(fits, fit)
                if fit.identity.key in fits.not_kept:
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
        fits.say(f"not using checkpoint {checkpoint.name}: {trouble}")
        fits.lacks_common = fits.session.handover.workers > 1
        checkpoint = fits.checkpoint_before(checkpoint)
    leaving.leave_for_a_common_checkpoint(fits)
    return checkpoint


def _tell_skipped(fits: Fits, fit: Fit) -> None:
    skipped = fits.sites_of_skipped(fit.identity) if fit.identity.cell is not None else []
    if skipped:
        fits.say(
            f"the state of fit at {fit.identity.site} includes training that has not run again in this kernel: fit at"
            f" {', '.join(skipped)}"
        )


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
        if fit.identity.key in fits.not_kept:
            _tell_again(fits, fit, "its beginning")
            return
        others = fits.interrupted_sites()
        if others:
            fits.warn(
                f"fit at {site} trains from the beginning: the checkpoints belong to a different fit, at "
                f"{', '.join(others)}"
            )
        return
    if found.another_path:
        reason = because("another-path", what="fit", site=site, differences=found.reason)
        fits.note(AnotherWay(key=fit.identity.key, fit=fit.identity.ordinal, **reason.as_fields()))
        fits.say(f"{reason}: it trains from the beginning")
    else:
        was = None if record is None else record.position.fit
        fits.note(TrainsAgain(key=fit.identity.key, fit=fit.identity.ordinal, reason=found.reason, edited_fit=was))
        fits.say(f"fit at {site} trains again, since it differs from the trained one: {found.reason}")


def _tell_again(fits: Fits, fit: Fit, origin: str) -> None:
    fits.say_once(
        f"fit at {fit.identity.site} trains again from {origin}: an earlier attempt finished it, but its end state was"
        " too expensive to keep"
    )


def finished_history(fits: Fits, fit: Fit) -> Any:
    """Restore a finished fit's effects and return its History, or return None if the fit has to run again."""
    checkpoint = fits.finished(fit.identity.ordinal) if fit.returns else None
    leaving.leave_for_a_common_checkpoint(fits)
    if checkpoint is None:
        return None
    lost = _not_restorable(fit, checkpoint)
    if lost and not fits.session.handover.guarding.trust_finished_fits:
        _trains_again(fits, fit, checkpoint, in_one_line(lost, 4))
        return None
    if lost:
        trusted = because("trusted", site=fit.identity.site, lost=in_one_line(lost))
        fits.note(TrustedResult(key=fit.identity.key, **trusted.as_fields()))
    try:
        return _restore(fits, fit, checkpoint)
    except Exception as error:  # an error in the checkpoint, or one that Keras will raise as well when the fit runs
        reason = str(error) if isinstance(error, CheckpointError) else repr(error)
        fits.note(CheckpointRefused(name=checkpoint.name, reason=reason))
        _trains_again(fits, fit, checkpoint, reason)
        _tell_moved_data(fits, fit)
        fit.forget_input()
        return None


def _tell_moved_data(fits: Fits, fit: Fit) -> None:
    """Report that the data has already advanced, so that the fit trains again with the data in a different order."""
    if fit.data.iterators_made or fit.validation.made:
        fits.note(
            RepeatCompared(key=fit.identity.key, fit=fit.identity.ordinal, steps=0, epochs=0, equal=False,
            cause=because("data-advanced").as_data(),
        ))  # fmt: skip


def _not_restorable(fit: Fit, checkpoint: Checkpoint) -> list[Reason]:
    """Return the reasons why the fit cannot be skipped: effects that were not saved, or files changed since then."""
    lost = [*reasons_from((checkpoint.meta.objects or {}).get("lost")), *reasons_from(checkpoint.meta.hidden)]
    lost += [READ_AHEAD] if fit.validation.is_guessed(checkpoint) else []
    return [*lost, *written_files.changed_since(checkpoint, list(written_files.patterns(fit.callbacks)))]


def _trains_again(fits: Fits, fit: Fit, checkpoint: Checkpoint, reason: str) -> None:
    seconds = checkpoint.meta.fit_seconds
    cost = f", which took {seconds:.0f} s last time" if isinstance(seconds, (int, float)) else ""
    fits.note(TrainsAgain(key=fit.identity.key, fit=fit.identity.ordinal, reason=reason))
    fits.say(
        f"fit at {fit.identity.site} was finished but trains again{cost}: its effects cannot be restored"
        f" ({reason}); --trust-finished-fits returns its result anyway"
    )


def _restore(fits: Fits, fit: Fit, checkpoint: Checkpoint) -> Any:
    started = time.monotonic()
    model = fit.model
    epochs = _epoch_iterator(fit)
    iterator = iter(KERAS.distributed_dataset.of(epochs))
    if KERAS.distribute_strategy.get(model) is not None:
        models.build_for(model, iterator.element_spec)
    model.make_train_function()
    kept = checkpoint.meta.optimizers
    if model.built:
        models.build_as_before(model, kept)  # a strategy's variables cannot be created while tracing
    model.train_function.prepare(iterator)
    models.build_as_before(model, kept)
    extra = model.train_function.extra_state()
    named = training_state.named_slots(model, extra)
    with training_state.restored(checkpoint, named):
        if isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            _move_on(fit, checkpoint, epochs, iterator)
        models.give_back(model, training_state.read_arrays(checkpoint, "layer/"))
        lost = [*fit.data.lost, *model_state.restore_draws(model, checkpoint), *_restore_python(fits, fit, checkpoint)]
        history = _history(fit, epochs, checkpoint)
        model.stop_training = said(checkpoint.meta.stop_training)
        model_state.restore_changes(model, checkpoint.meta.trained)
    if lost and not fits.session.handover.guarding.trust_finished_fits:
        raise CheckpointError(in_one_line(lost))
    broken = training_state.not_finite(named, training_state.finite_only(model, named))
    if broken:
        path = training_state.path_of(model, named, broken)
        fits.note(
            CheckpointSkipped(
                **because("not-finite", name=path).as_fields(),
                kept="the saved end state unchanged",
            )
        )
        fits.warn(f"{path} contains NaN or infinity in the saved end state of fit at {fit.identity.site}")
    at = checkpoint.position
    fits.steps = fits.saved = max(fits.steps, at.steps)
    seconds, edited = time.monotonic() - started, fit.beginning.given_otherwise(checkpoint)
    fits.note(
        Resumed(name=checkpoint.name, key=fit.identity.key, fit=at.fit, epoch=at.epoch, step=at.step,
        steps=at.steps, kind="finished", seconds=round(seconds, 3), lost=as_data(lost), meant=as_data(edited),
    ))  # fmt: skip
    since = f"; {in_one_line(edited)} since" if edited else ""
    line = f"fit at {fit.identity.site} was finished by an earlier attempt: result restored ({seconds:.1f} s){since}"
    if edited:
        fits.say(line)
    else:
        fits.say_some(line, after="an earlier attempt finished more fits; their results are restored as well")
    return history


def _move_on(fit: Fit, checkpoint: Checkpoint, epochs: Any, iterator: Any) -> None:
    """Advance the datasets to where this fit left them, for the fits that follow."""
    is_saved, made = checkpoint.meta.iterator_of_dataset, said(checkpoint.meta.iterators_made)

    def validate(number: int, watched: Watched) -> None:
        fit.validation.catch_up(checkpoint, made if is_saved else number, watched)

    fit.data.pass_over(epochs, 0 if is_saved else made, used_in(checkpoint), iterator, between=validate)
    if is_saved:
        iterators.restore(iterator, checkpoint.path)


def _restore_python(fits: Fits, fit: Fit, checkpoint: Checkpoint) -> list[Reason]:
    """Restore callbacks, other objects and random states; return the reasons for anything that is lost."""
    named = list(written_files.patterns(fit.callbacks))
    changes = from_meta(said(checkpoint.meta.objects), training_state.read_arrays(checkpoint, "object/"))
    lost = fit.objects.restore_end(changes)
    callbacks.restore(fit.callbacks, said(checkpoint.meta.callbacks), checkpoint, lost.append)
    training_state.restore_random_state(said(checkpoint.meta.random))
    others = written_files.put_back(checkpoint, named)
    fits.files.put_back_when_opened(others, lambda path: None)  # the checkpoint has a copy of each file
    return lost


def _epoch_iterator(fit: Fit) -> Any:
    """Create the fit's input as Keras would, to learn its structure and to advance the seeds that a dataset keeps."""
    names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
    arguments = {name: fit.arguments.get(name) for name in names}
    return KERAS.epochs.value()(distribute_strategy=fit.model.distribute_strategy, **arguments)


def _history(fit: Fit, epochs: Any, checkpoint: Checkpoint) -> Any:
    """Create the History that `fit` would return, and set the callbacks' model and parameters as `fit` does."""
    import keras

    own = [callback for callback in fit.callbacks if isinstance(callback, keras.callbacks.History)]
    history = own[0] if own else keras.callbacks.History()
    params = {name: fit.arguments[name] for name in ("verbose", "epochs")}
    for callback in dict.fromkeys((history, *fit.callbacks)):
        callback.set_params({**params, "steps": epochs.num_batches})
        callback.set_model(fit.model)
    callbacks.restore_history(history, checkpoint)
    fit.model.history = history
    return history
