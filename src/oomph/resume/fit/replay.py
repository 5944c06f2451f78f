"""Restores everything changed by a fit that an earlier attempt finished, or lets it train again."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.errors import CheckpointError
from oomph.journal.events import (
    CheckpointRefused,
    CheckpointSkipped,
    RepeatCompared,
    Resumed,
    TrainsAgain,
    TrustedResult,
)
from oomph.keras_bridge import models
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.protocol.reasons import Reason, as_data, because, in_one_line, reasons_from
from oomph.resume.fit import callbacks, model_state, written_files
from oomph.resume.fit.fit import Fit
from oomph.resume.fit.validation_data import READ_AHEAD
from oomph.resume.state import iterators, training_state
from oomph.resume.training.data_position import used_in
from oomph.resume.training.fit_objects import from_meta
from oomph.resume.training.fits import Fits
from oomph.resume.training.retaking import Watched


def finished_history(fits: Fits, fit: Fit) -> Any:
    """Restore the effects of a fit that an earlier attempt finished, and return its History; None if it must run."""
    checkpoint = fits.finished(fit.identity.ordinal) if fit.returns else None
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
    except Exception as error:  # the checkpoint's error, or one that Keras will raise itself when the fit runs
        reason = str(error) if isinstance(error, CheckpointError) else repr(error)
        fits.note(CheckpointRefused(name=checkpoint.name, reason=reason))
        _trains_again(fits, fit, checkpoint, reason)
        _tell_moved_data(fits, fit)
        fit.forget_input()
        return None


def _tell_moved_data(fits: Fits, fit: Fit) -> None:
    """Report that the data have advanced although the fit trains again, so their order differs now."""
    if fit.data.iterators_made or fit.validation.made:
        fits.note(
            RepeatCompared(key=fit.identity.key, fit=fit.identity.ordinal, steps=0, epochs=0, equal=False,
            cause=because("data-advanced").as_data(),
        ))  # fmt: skip


def _not_restorable(fit: Fit, checkpoint: Checkpoint) -> list[Reason]:
    """The reasons the fit cannot be skipped: effects that were not saved or have changed since."""
    lost = [*reasons_from((checkpoint.meta.objects or {}).get("lost")), *reasons_from(checkpoint.meta.hidden)]
    lost += [READ_AHEAD] if fit.validation.is_guessed(checkpoint) else []
    return [*lost, *written_files.changed_since(checkpoint, list(written_files.patterns(fit.callbacks)))]


def _trains_again(fits: Fits, fit: Fit, checkpoint: Checkpoint, reason: str) -> None:
    seconds = checkpoint.meta.fit_seconds
    cost = f", which took {seconds:.0f} s before" if isinstance(seconds, (int, float)) else ""
    fits.note(TrainsAgain(key=fit.identity.key, fit=fit.identity.ordinal, reason=reason))
    fits.say(
        f"fit at {fit.identity.site} was finished and trains again{cost}: what it had changed cannot be restored"
        f" ({reason}); --trust-finished-fits returns its result anyway"
    )


def _restore(fits: Fits, fit: Fit, checkpoint: Checkpoint) -> Any:
    started = time.monotonic()
    model = fit.model
    epochs = _epoch_iterator(fits, fit)
    iterator = iter(KERAS.distributed_dataset.of(epochs))
    _build_as_keras_does(model, iterator)
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
                kept="the saved end state as it is",
            )
        )
        fits.say(f"{path} holds NaN or infinity in the saved end state of fit at {fit.identity.site}")
    at = checkpoint.position
    fits.steps = fits.saved = max(fits.steps, at.steps)
    seconds, edited = time.monotonic() - started, fit.beginning.given_otherwise(checkpoint)
    fits.note(
        Resumed(name=checkpoint.name, key=fit.identity.key, fit=at.fit, epoch=at.epoch, step=at.step,
        steps=at.steps, kind="finished", seconds=round(seconds, 3), lost=as_data(lost), meant=as_data(edited),
    ))  # fmt: skip
    since = f"; {in_one_line(edited)} since" if edited else ""
    line = f"fit at {fit.identity.site} was finished by an earlier attempt: its result is back ({seconds:.1f} s){since}"
    if edited:
        fits.say(line)
    else:
        fits.say_some(line, after="more fits were finished by an earlier attempt: their results come back, too")
    return history


def _build_as_keras_does(model: Any, iterator: Any) -> None:
    """Build the model first under a strategy, as Keras' fit does: tracing cannot create metric and layer variables."""
    if KERAS.distribute_strategy.get(model) is None:
        return
    spec = batches.without_optionals(iterator.element_spec)
    with model.distribute_strategy.scope():
        KERAS.symbolic_build.call(model, data_batch=tf.nest.map_structure(_on_one_replica, spec))


def _on_one_replica(spec: Any) -> Any:
    return TENSORFLOW.spec_of_each_replica.get(spec, (spec,))[0]


def _move_on(fit: Fit, checkpoint: Checkpoint, epochs: Any, iterator: Any) -> None:
    """Advance the datasets to where the fit left them, for the fits after it."""
    is_saved, made = checkpoint.meta.iterator_of_dataset, said(checkpoint.meta.iterators_made)

    def validate(number: int, watched: Watched) -> None:
        fit.validation.catch_up(checkpoint, made if is_saved else number, watched)

    fit.data.pass_over(epochs, 0 if is_saved else made, used_in(checkpoint), iterator, between=validate)
    if is_saved:
        iterators.restore(iterator, checkpoint.path)


def _restore_python(fits: Fits, fit: Fit, checkpoint: Checkpoint) -> list[Reason]:
    """Restore callbacks, other objects and the random numbers; return what could not be restored."""
    named = list(written_files.patterns(fit.callbacks))
    changes = from_meta(said(checkpoint.meta.objects), training_state.read_arrays(checkpoint, "object/"))
    lost = fit.objects.restore_end(changes)
    callbacks.restore(fit.callbacks, said(checkpoint.meta.callbacks), checkpoint, lost.append)
    training_state.restore_random_state(said(checkpoint.meta.random))
    others = written_files.put_back(checkpoint, named)
    fits.files.put_back_when_opened(others, lambda path: None)  # each has a copy
    return lost


def _epoch_iterator(fits: Fits, fit: Fit) -> Any:
    """Create the fit's input as Keras would, for its structure and for the seeds that a dataset keeps."""
    names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
    arguments = {name: fit.arguments.get(name) for name in names}
    return KERAS.epochs.value()(distribute_strategy=fit.model.distribute_strategy, **arguments)


def _history(fit: Fit, epochs: Any, checkpoint: Checkpoint) -> Any:
    """Create the History as `fit` leaves it, and give the callbacks the model and the parameters that `fit` sets."""
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
