"""Reports on a fit, with events in the journal and lines for the user. Runs in the script process.

A script with its own checkpoints starts a fit at a later epoch than the first attempt did, through `initial_epoch` or
Keras' BackupAndRestore. In that case, oomph doesn't restore anything, but it counts the earlier steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.probe import coarsest_type
from oomph.exact_step.step.step_protocol import Failure, Recovery, Step
from oomph.exact_step.step.verification import Verified
from oomph.journal.events import (
    DataEnded,
    FindingMade,
    FitFinished,
    FitStarted,
    Oom,
    PassedOn,
    Recovered,
    ResumedItself,
    StepsRechecked,
    StepsVerified,
)
from oomph.journal.journal import Event, facts, read_journal
from oomph.keras_bridge.models import optimizer_variables_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.allocator import DeviceMemory, peak_bytes_of_device
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.protocol.progress import Progress
from oomph.protocol.reasons import because
from oomph.resume.fit.running import RunningFit
from oomph.resume.state import iterators, training_state
from oomph.resume.training.whole_models import cannot_be_saved, saves_ahead
from oomph.terminal.amounts import counted


def tell_start(fit: RunningFit, step: Step) -> None:
    """Report the guarantee given for the fit, before its first step."""
    fit.fits.note(
        FitStarted(
            fit=fit.identity.ordinal,
            key=fit.identity.key,
            site=fit.identity.site,
            guard=fit.promise.kind,
            reason=fit.promise.reason,
            coupling=fit.promise.coupling,
            fingerprint=fit.identity.fingerprint,
            epochs=fit.arguments.get("epochs"),
            first_epoch=fit.epoch,
            xla=bool(fit.model.jit_compile),
            precision=coarsest_type(fit.model),
            held_bytes=step.held_bytes if isinstance(step, GuardedStep) else None,
        )
    )
    if any(fit.arguments.get("x") is data for data in fit.fits.passed_on):
        reason = because("generator-passed-on", site=fit.identity.site)
        fit.fits.note(PassedOn(fit=fit.identity.ordinal, key=fit.identity.key, **reason.as_fields()))
        fit.fits.say(f"{reason}: it may be further along than in an undisturbed run")
    alone = "" if fit.fits.own_session().owner else "; in its own process: neither checkpointed nor resumed"
    is_split = isinstance(step, GuardedStep) and step.micro_batch is not None
    line = f"guarding fit at {fit.identity.site} ({announced(fit.promise, is_split)}{alone})"
    if not alone and fit.promise.kind in (exactness.EXACT, exactness.TO_BE_PROBED):
        fit.fits.say_some(
            line, after="guarding further fits in the same way; only fits that are guarded differently are announced"
        )
    else:
        fit.fits.say_once(line)
    if isinstance(step, GuardedStep) and step.held_bytes == 0:
        fit.fits.say_once(
            "too little device memory is free to defer a step's update:"
            " an out-of-memory error in a full batch restarts from the checkpoint"
        )


def announced(promise: exactness.Promise, is_split: bool) -> str:
    """Describe a promise before any step has run out of memory.

    Args:
        is_split: True if every batch is split from the start.
    """
    if promise.kind == exactness.APPROXIMATE and not is_split:
        return f"exact until a batch must be split, then {promise}"
    return str(promise)


def tell_out_of_memory(fit: RunningFit, failure: Failure) -> None:
    """Report that a step ran out of memory."""
    fit.note_here(
        Oom(
            batch=failure.batch,
            micro_batch=failure.micro_batch,
            phase=failure.phase,
            message=failure.oom.line,
            requested_bytes=failure.oom.requested_bytes,
            seconds=round(failure.seconds, 3),
        )
    )
    if failure.phase == "compute":
        is_divided = None not in (failure.micro_batch, failure.batch) and failure.micro_batch != failure.batch
        size = "" if failure.micro_batch is None else f" at batch {failure.micro_batch}"
        size = f" in micro-batches of {failure.micro_batch}" if is_divided else size
        after = "nothing was applied"
        if failure.micro_batch is not None and failure.micro_batch > 1 and fit.promise.kind != exactness.REFUSED:
            after += ", trying smaller ones" if is_divided else ", trying the same batch as micro-batches"
        fit.fits.say(f"out of memory{size} (epoch {fit.epoch + 1}, step {fit.step + 1}); {after}")


def tell_recovery(fit: RunningFit, recovery: Recovery) -> None:
    """Report that a step was completed in micro-batches."""
    fit.note_here(
        Recovered(
            batch=recovery.batch,
            micro_batch=recovery.micro_batch,
            ooms=recovery.ooms,
            seconds=round(recovery.seconds, 3),
            guard=fit.promise.kind,
        )
    )
    parts = "batches" if fit.promise.kind == exactness.SMALLER else "micro-batches"
    fit.fits.say(
        f"recovered in {recovery.seconds:.1f} s: batch {recovery.batch} continues as {parts} of "
        f"{recovery.micro_batch} ({fit.promise.kind})"
    )


def tell_verification(fit: RunningFit, at_the_end: bool) -> None:
    """Report, only once, how the verified steps compare with plain Keras."""
    step = fit.model.train_function
    verification = step.verification if isinstance(step, GuardedStep) else None
    if verification is None or (verification.pending and not at_the_end):
        return
    step.verification, found = None, verification.result
    fit.note_here(StepsVerified(**asdict(found)))
    fit.fits.say(verified_in_words(found))


def verified_in_words(found: Verified) -> str:
    """Describe the result of a comparison with plain Keras, including how much difference rounding can explain."""
    stopped = f"; {found.stopped}" if found.stopped else ""
    if not found.steps:
        return f"no step was compared with plain Keras{stopped}"
    steps = f"{counted(found.steps, 'step')} compared with plain Keras"
    if found.same:
        return f"{steps}: no difference in any variable or metric{stopped}"
    verdict = "only rounding" if found.only_rounding else "more than rounding"
    variable = f" ({found.variable})" if found.variable else ""
    return (
        f"{steps}: {verdict}. Variables differ by up to {found.of_change:.1g} of what a step changes{variable},"
        f" metrics by up to {found.of_log:.1g} of their value;"
        f" rounding in {found.type} accounts for up to {found.rounding:.1g}{stopped}"
    )


def tell_short_epoch(fit: RunningFit) -> None:
    """Report that an epoch's data ran out early: to the journal every time, but to the user only once."""
    if fit.model.stop_training:
        return
    wanted = getattr(fit.epoch_iterator, "steps_per_epoch", None)
    is_one_pass = iterators.is_one_pass(fit.arguments.get("x"))
    short = fit.short_epochs.end(fit.epoch, fit.step, wanted, is_one_pass)
    if short is None:
        return
    finding = fit.short_epochs.finding()
    fit.note_here(DataEnded(wanted=short.wanted))
    fit.fits.note(FindingMade(**as_data(finding)))
    if len(fit.short_epochs.found) == 1:
        fit.fits.say(in_words(finding))


def tell_aside(fit: RunningFit) -> None:
    """Report that the guard is no longer in use, once a step of plain Keras has succeeded.

    An error in the script itself would have made both the guarded and the plain step fail.
    """
    if fit.aside:
        fit.fits.say_once(fit.aside)
        fit.aside = ""


def tell_recheck(fit: RunningFit) -> None:
    """Report how many steps were computed twice. Called when the fit ends."""
    step = fit.model.train_function
    recheck = step.recheck if isinstance(step, GuardedStep) else None
    if recheck is None:
        return
    fit.note_here(StepsRechecked(steps=recheck.done, seconds=round(recheck.seconds, 3), reason=recheck.impossible))
    if recheck.impossible:
        fit.fits.say_once(f"--recheck: nothing could be compared: {recheck.impossible}")


def tell_end(fit: RunningFit, steps: int, seconds: float, history: Any, saved: Any, too_dear: bool) -> None:
    """Report that the fit has returned.

    Args:
        steps: the number of steps in this attempt.
        saved: the end state, if it was saved.
        too_dear: True if the end state was not saved because that would have been too expensive.
    """
    step = fit.model.train_function
    fit.fits.note(
        FitFinished(
            fit=fit.identity.ordinal,
            key=fit.identity.key,
            steps=steps,
            micro_batch=step.micro_batch if isinstance(step, GuardedStep) else None,
            guard=fit.promise.kind,
            seconds=round(seconds, 3),
            loss=_last_loss(history),
            state=None if saved is None else saved.digest,
            too_dear=too_dear,
            reached=fit.fits.steps,
            over=fit.is_over,
            **memory_taken(fit.model, fit.epoch_iterator, fit.arguments.get("x"), fit.seen_peak),
        )
    )


def _last_loss(history: Any) -> float | None:
    series = getattr(history, "history", {}).get("loss") or [None]
    return None if series[-1] is None else float(series[-1])


_KEEP_THE_SIZE = ("Prefetch", "Options", "Take", "Skip", "Repeat", "Cache", "Shuffle", "_MapDataset", "ParallelMap")
"""The names of stages that may follow `batch` without changing the batch size."""
_MOST_STAGES = 100


def memory_taken(model: Any, epochs: Any, data: Any, seen_peak: int) -> dict[str, int | None]:
    """Return the batch size and the training device's memory, in bytes, as fields of `fit-finished`; None if unknown.

    Args:
        epochs: Keras' epoch iterator over the data.
        data: the argument `x` of `fit`.
        seen_peak: the highest peak read after a step, in bytes.
    """
    now = peak_bytes_of_device()
    peak = None if now is None else max(now, seen_peak)
    limit = None if peak is None else DeviceMemory.of_training_device().limit_bytes
    return {
        "batch_size": batch_size(epochs, data),
        "device_peak_bytes": peak,
        "device_limit_bytes": limit,
        "kept_bytes": None if peak is None else _kept_bytes(model),
    }


def batch_size(epochs: Any, data: Any) -> int | None:
    """Return the number of samples in a full batch, or None if finding out would require reading the data."""
    size = getattr(getattr(epochs, "data_adapter", None), "batch_size", None)
    if size is None and isinstance(data, tf.data.Dataset):
        size = _size_in(data)
    return size if isinstance(size, int) and size > 0 else None


def _size_in(dataset: Any) -> int | None:
    """Return the batch size of a pipeline's last `batch` stage."""
    for _ in range(_MOST_STAGES):
        size = TENSORFLOW.dataset_batch_size.get(dataset)
        if size is not None:
            known = tf.get_static_value(size)
            return None if known is None else int(known)
        before = TENSORFLOW.dataset_inputs.call(dataset) if TENSORFLOW.dataset_inputs.on(dataset) else []
        if len(before) != 1 or not any(name in type(dataset).__name__ for name in _KEEP_THE_SIZE):
            return None
        dataset = before[0]
    return None


def _kept_bytes(model: Any) -> int:
    """Return the number of bytes that the model and its optimizers keep from step to step."""
    variables = {id(each): each for each in (*model.variables, *optimizer_variables_of(model))}.values()
    return sum(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)


def tell_unsavable(fit: RunningFit) -> None:
    """Warn if the model's configuration cannot be saved, without writing any files or drawing random numbers."""
    for finding in _found(fit):
        fit.fits.note(FindingMade(**as_data(finding)))
        fit.fits.say_once(in_words(finding))


def _found(fit: RunningFit) -> Iterator[Finding]:
    saves = list(saves_ahead(fit.model, fit.callbacks))
    if not saves:
        return
    random = training_state.random_state()
    for save in saves:
        trouble = cannot_be_saved(fit.model, save.path)
        if trouble is not None:
            where = f" ({save.site})" if save.site else ""
            when = "there, after training" if save.site else "at the end of an epoch"
            yield Finding(
                fault="checkpoint-failure",
                subject=save.by,
                message=f"{save.path}{where} cannot be written, and the script would fail {when}: {trouble}",
                severity="critical",
                remedy=(
                    f"Give {trouble.culprit or 'the class named in the message'} a get_config that returns every "
                    "argument of __init__, or save only the weights (save_weights_only=True, save_weights)"
                ),
                kind=save.path,
            )
    if training_state.random_state() != random:  # a custom get_config has drawn random numbers
        training_state.restore_random_state(random)


def tell_own_resume(fit: RunningFit) -> bool:
    """Report a fit that the script itself resumed, and count its earlier steps; return False if it wasn't resumed."""
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
    fits.say(
        f"{reason}, in fit at {fit.identity.site}: oomph does not restore anything, but counts from step {fits.steps}"
    )
    return True


def begun_before(events: Iterable[Event], key: str, epoch: int) -> int | None:
    """Return the fit's number in earlier attempts if one of them started it at an earlier epoch, or None otherwise."""
    mine = [fit for fit in facts(events, FitStarted) if fit.key == key]
    first = min((epoch if fit.first_epoch is None else fit.first_epoch for fit in mine), default=epoch)
    return mine[-1].fit if first < epoch else None


def steps_before(before: Progress | None, fit: int, epoch: int, per_epoch: int | None) -> int:
    """Return the number of steps that the run had trained before an epoch, or 0 if unknown.

    Args:
        before: the progress of the previous attempt.
        per_epoch: the number of steps per epoch, or None if unknown, as with data of unknown length.
    """
    if before is None or before.fit != fit:
        return 0
    if per_epoch is None:  # a finished epoch has as many steps as were done in it
        per_epoch = before.step if epoch == before.epoch + 1 else 0
    return max(0, before.steps - before.step + (epoch - before.epoch) * per_epoch)
