"""A fit that an earlier attempt has finished: its weights, History and random state come back at once."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.checkpoint import Checkpoint
from oomph.tensorflow import callbacks, iterators, layer_state, optimizers, state
from oomph.tensorflow.fit import Fit
from oomph.tensorflow.fits import Fits
from oomph.tensorflow.provenance import listed


def finished_history(fits: Fits, fit: Fit) -> Any:
    """The History of this fit if an earlier attempt finished it, its state restored; None when it has to run."""
    checkpoint = fits.finished(fit.identity.ordinal)
    if checkpoint is None:
        return None
    compared = fit.beginning.compared(checkpoint, fit.identity.fingerprint)
    if compared == "another model":
        fits.refuse_edited(fit, checkpoint)
    if compared == "unstable":
        reason = "model or optimizer differ from those that were trained"
        fits.note("checkpoint-refused", name=checkpoint.name, reason=reason)
        fits.say(f"fit at {fit.identity.site} runs again: {reason}")
        return None
    try:
        return _restore(fits, fit, checkpoint)
    except Exception as error:  # of the checkpoint, or one that Keras will raise itself when the fit runs
        reason = str(error) if isinstance(error, CheckpointError) else repr(error)
        fits.note("checkpoint-refused", name=checkpoint.name, reason=reason)
        fits.say(f"fit at {fit.identity.site} runs again: {reason}")
        fit.forget_input()
        return None


def _restore(fits: Fits, fit: Fit, checkpoint: Checkpoint) -> Any:
    started = time.monotonic()
    model = fit.model
    epochs = _epoch_iterator(fits, fit)
    iterator = iter(epochs._distributed_dataset)
    model.make_train_function()
    model.train_function.prepare(iterator)
    optimizers.build_as_before(model, checkpoint.meta.get("optimizers", []))
    extra = model.train_function.extra_state()
    with state.restored(checkpoint, state.named_slots(model, extra)):
        if checkpoint.meta["iterator_of_dataset"] and isinstance(iterator, tf.data.Iterator):
            iterators.restore(iterator, checkpoint.path)
        elif isinstance(iterator, tf.data.Iterator):
            iterators.make(epochs, int(checkpoint.meta["iterators_made"]) - 1)
        layer_state.give_back(model, state.read_arrays(checkpoint, "layer/"))
        state.restore_random_state(checkpoint.meta["random"])
        history = _history(fit, epochs, checkpoint)
        model.stop_training = checkpoint.meta["stop_training"]
    at = checkpoint.position
    fits.steps = fits.saved = at.steps
    seconds = time.monotonic() - started
    fits.note(
        "resumed", name=checkpoint.name, fit=at.fit, epoch=at.epoch, step=at.step, steps=at.steps, kind="finished",
        seconds=round(seconds, 3),
    )  # fmt: skip
    fits.say(f"fit at {fit.identity.site} was finished by an earlier attempt: its result is back ({seconds:.1f} s)")
    found = fit.beginning.changes(checkpoint)
    if found:
        fits.say(f"since then, without effect on that result: {listed(found)}")
    return history


def _epoch_iterator(fits: Fits, fit: Fit) -> Any:
    """The input of the fit as Keras would make it, for its structure and for the seeds that a dataset keeps."""
    names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
    arguments = {name: fit.arguments.get(name) for name in names}
    return fits.trainer.TFEpochIterator(distribute_strategy=fit.model.distribute_strategy, **arguments)


def _history(fit: Fit, epochs: Any, checkpoint: Checkpoint) -> Any:
    import keras

    history = keras.callbacks.History()
    params = {name: fit.arguments[name] for name in ("verbose", "epochs")}
    history.set_params({**params, "steps": epochs.num_batches})
    history.set_model(fit.model)
    callbacks.restore_history(history, checkpoint.meta["history"])
    fit.model.history = history
    return history
