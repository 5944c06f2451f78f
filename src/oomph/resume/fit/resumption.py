"""Resumption: restores a fit from a checkpoint when the fit reaches its first step."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.checkpoint.witness import STEP
from oomph.errors import CheckpointError
from oomph.exact_step.micro_batch.micro_batch_step import essence
from oomph.exact_step.step.execution import OnlySpec
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.step_protocol import Step
from oomph.journal.events import CheckpointRefused, RepeatCompared, Resumed
from oomph.keras_bridge import models
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.pipelines import datasets
from oomph.objects.picture import Changes
from oomph.protocol.reasons import Reason, as_data, because, reasons_from
from oomph.resume.fit import callbacks, model_state, written_files
from oomph.resume.fit.running import RunningFit
from oomph.resume.fit.validation_data import READ_AHEAD
from oomph.resume.state import training_state
from oomph.resume.training import provenance
from oomph.resume.training.data_position import Moment, used_in
from oomph.resume.training.fit_objects import from_meta
from oomph.resume.training.retaking import Watched
from oomph.script.opened_files import log_files
from oomph.terminal.amounts import counted

_TRIES = 3
_PAUSE_SECONDS = 1.0
_MAY_PASS = (OSError, MemoryError, tf.errors.ResourceExhaustedError, tf.errors.UnavailableError)
"""Transient memory or file system errors, which do not mean that there is anything wrong with the checkpoint."""


class CannotResumeError(CheckpointError):
    """Raised if no checkpoint could be restored, although all are intact.

    Args:
        passing: True if a retry later may succeed.
    """

    def __init__(self, reason: str, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class Resumption:
    """Restores the checkpoint that a fit resumes from, if there is one."""

    def __init__(self, fit: RunningFit) -> None:
        self._fit, self._fits = fit, fit.fits
        self.checkpoint: Checkpoint | None = None
        """The checkpoint still to be restored, if any."""
        self.logs: dict[str, float] = {}
        """The logs of the last step before the checkpoint."""
        self._data_kind = ""
        """The way the data position was restored, such as "exact". Once this is set, no more batches are skipped."""

    @property
    def pending(self) -> bool:
        """True if a checkpoint is still to be restored."""
        return self.checkpoint is not None

    @property
    def epochs(self) -> int | None:
        """The number of epochs that the script asks for, or None if the argument is not an integer."""
        epochs = self._fit.arguments.get("epochs")
        return epochs if isinstance(epochs, int) else None

    def is_over(self, checkpoint: Checkpoint) -> bool:
        """True if a checkpoint covers all the epochs that the script asks for."""
        return self.epochs is not None and checkpoint.position.epoch >= self.epochs

    @property
    def as_of(self) -> float | None:
        """The time of the pending checkpoint, in seconds since 1970, or None if no checkpoint is pending."""
        return None if self.checkpoint is None else self.checkpoint.meta.taken_at

    def skipped_steps(self) -> int:
        """Return the number of steps in the resumed epoch that an earlier attempt completed."""
        return 0 if self.checkpoint is None or self._other_data(self.checkpoint) else self.checkpoint.position.step

    def skipped_epochs(self) -> int:
        """Return the number of whole epochs of the fit that an earlier attempt completed."""
        if self.checkpoint is None:
            return 0
        return self.checkpoint.position.epoch - int(self._fit.arguments.get("initial_epoch") or 0)

    def pass_over_iterators(self, epochs: Any) -> None:
        """Advance the data past all iterators before the one that continues, unless that iterator was saved."""
        checkpoint, data = self.checkpoint, self._fit.data
        if checkpoint is None:
            return
        made = said(checkpoint.meta.iterators_made)

        def validate(number: int, watched: Watched) -> None:
            self._fit.validation.catch_up(checkpoint, made if is_saved else number, watched)

        is_saved = data.is_saved_whole(checkpoint, KERAS.distributed_dataset.of(epochs))
        count = 0 if is_saved else max(0, made - data.iterators_made - 1)
        data.pass_over(epochs, count, used_in(checkpoint), between=validate)

    def _catch_up(self, checkpoint: Checkpoint, watched: Watched) -> None:
        """Create the validation iterators that the earlier attempt created after the resumed training iterator."""
        validation = self._fit.validation
        validation.catch_up(checkpoint, said(checkpoint.meta.iterators_made), watched)
        if validation.is_guessed(checkpoint):
            self._fit.lost.append(READ_AHEAD)

    def restore_early(self) -> None:
        """Restore the state that callbacks see in their first `on_epoch_begin`; the first step restores it again."""
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.meta.objects is None:  # the first step rejects a forged checkpoint
            return
        if checkpoint.meta.validated:
            self._fit.validation.begin_early(self._fit.epoch_iterator)
        kept = checkpoint.meta.trained
        if not model_state.is_made_anew(kept):
            self._trace_as_at_the_beginning()
        model_state.restore_changes(self._fit.model, kept)
        changes = from_meta(checkpoint.meta.objects, training_state.read_arrays(checkpoint, "object/"))
        self._fit.objects.restore_early(changes)
        callbacks.restore_history(self._fit.model.history, checkpoint)
        callbacks.restore(self._fit.callbacks, said(checkpoint.meta.callbacks), checkpoint, lambda lost: None)
        self._restore_files(checkpoint)

    def _trace_as_at_the_beginning(self) -> None:
        """Trace the step before anything is restored, since the earlier attempt traced it before anything changed."""
        dataset = KERAS.distributed_dataset.get(self._fit.epoch_iterator)
        if isinstance(dataset, tf.data.Dataset):
            self._fit.model.train_function.prepare(OnlySpec(tf.data.IteratorSpec(dataset.element_spec)))
            if self.checkpoint is not None and self.checkpoint.meta.validated:
                self._trace_validation()

    def _trace_validation(self) -> None:
        """Trace the validation step as well, as Keras does at the first validation."""
        model = self._fit.model
        spec = self._fit.validation.spec(self._fit.epoch_iterator)
        if spec is not None:
            model.make_test_function()
            if isinstance(model.test_function, GuardedStep):
                model.test_function.prepare(OnlySpec(tf.data.IteratorSpec(spec)))

    def prepare_data(self) -> bool:
        """Restore the state that the resumed iterator starts from, before it is created.

        Returns False if the state of the objects was not saved.
        """
        if self.checkpoint is None or self._other_data(self.checkpoint):
            return False
        kept = self.checkpoint.meta.moment
        if not isinstance(kept, dict):
            return False
        arrays = training_state.read_arrays(self.checkpoint, "data/")
        objects = None if kept["objects"] is None else from_meta(kept["objects"], arrays)
        self._fit.lost += self._fit.data.go_back_to(Moment(kept["random"], objects))
        if objects is not None:
            self._fit.lost += objects.lost
        return objects is not None

    def restore(self, step: Step, iterator: Any) -> None:
        """Restore the state. If that fails, raises CannotResumeError and leaves the model untouched."""
        checkpoint = self.checkpoint
        assert checkpoint is not None
        is_over = self.is_over(checkpoint)
        anew = is_over or self._other_data(checkpoint)
        self.checkpoint = None
        started = time.monotonic()
        kind = self._restored(step, checkpoint, iterator, anew)
        fit = self._fit
        fit.step = 0 if anew else checkpoint.position.step
        self.logs = checkpoint.meta.logs if fit.step else {}
        taken = 0 if anew else said(checkpoint.meta.taken)
        fit.data.go_on(iterator, checkpoint, taken)
        if not fit.beginning.other_workers(checkpoint):  # otherwise each worker had another part of each batch
            fit.proof.compare_from(fit.epoch, fit.step)
        fit.proof.is_replayed = kind == "replayed"
        self._tell(checkpoint, "over" if is_over else kind, time.monotonic() - started)
        fit.write_board()

    def _restored(self, step: Step, checkpoint: Checkpoint, iterator: Any, anew: bool) -> str:
        """Restore the state, retrying after transient errors; return how the data position was restored."""
        for tried in range(1, _TRIES + 1):
            try:
                return self._restore_state(step, checkpoint, iterator, anew)
            except Exception as error:
                passing = may_pass(error)
                self._fit.note_here(CheckpointRefused(name=checkpoint.name, reason=essence(error)))
                if not passing or tried == _TRIES:
                    raise CannotResumeError(f"checkpoint {checkpoint.name}: {essence(error)}", passing) from error
                self._fits.say(f"checkpoint {checkpoint.name} could not be restored: {essence(error)}; trying again")
                time.sleep(_PAUSE_SECONDS * tried)
        raise AssertionError("unreachable")

    def _restore_state(self, step: Step, checkpoint: Checkpoint, iterator: Any, anew: bool) -> str:
        fit, kind = self._fit, "epoch"
        step.prepare(iterator)
        if not fit.model.built:
            _build_by_a_call(fit.model, iterator)
        models.build_as_before(fit.model, checkpoint.meta.optimizers)
        named = training_state.slots_of(fit.model, step)
        with training_state.restored(checkpoint, named, training_state.finite_only(fit.model, named)):
            models.give_back(fit.model, training_state.read_arrays(checkpoint, "layer/"))
            self._fit.lost += model_state.restore_draws(fit.model, checkpoint)
            if not anew:
                kind = self._data_kind = self._data_kind or fit.data.restore(
                    checkpoint, iterator, fit.epoch_iterator, self._batches_before(checkpoint)
                )
                if kind == "epoch":
                    raise CheckpointError(ended_before(checkpoint))
                fit.data.pass_over_validation(lambda watched: self._catch_up(checkpoint, watched))
                self._fit.lost += fit.data.lost
                self._tell_order_to_come(checkpoint)
            drawn = fit.data.drawn_by_pipeline
            training_state.restore_random_state(
                {name: value for name, value in said(checkpoint.meta.random).items() if name not in drawn}
            )
            callbacks.restore_history(fit.model.history, checkpoint)
            callbacks.restore(fit.callbacks, said(checkpoint.meta.callbacks), checkpoint, self._fit.lost.append)
            self._restore_objects(checkpoint, drawn)
            self._restore_files(checkpoint)
        return kind

    def _tell_order_to_come(self, checkpoint: Checkpoint) -> None:
        """Report if later epochs get a new random order, which would differ from that of an uninterrupted run."""
        dataset = KERAS.distributed_dataset.get(self._fit.epoch_iterator)
        last = checkpoint.position.epoch + 1 >= int(self._fit.arguments.get("epochs") or 1)
        if not last and dataset is not None and datasets.is_ordered_by_chance(dataset):
            self._fit.lost.append(because("order-unseeded"))

    def _restore_objects(self, checkpoint: Checkpoint, drawn: frozenset[str]) -> None:
        changes: Changes = from_meta(said(checkpoint.meta.objects), training_state.read_arrays(checkpoint, "object/"))
        lost = [each for each in changes.lost if each.value("where") not in drawn]
        self._fit.lost += [*lost, *self._fit.objects.restore(changes, drawn)]
        self._fit.lost += reasons_from(checkpoint.meta.hidden)

    def _restore_files(self, checkpoint: Checkpoint) -> None:
        """Restore each file that the fit wrote as soon as the script opens it to read what it contained before."""
        self._fits.files.put_back_when_opened(written_files.states_in(checkpoint), self._lost_file)
        self._fits.files.tell_when_read(log_files())  # they contain lines from steps that are repeated

    def _lost_file(self, path: str) -> None:
        cause = because("file-read", path=path)
        self._fit.note_here(
            RepeatCompared(key=self._fit.identity.key, steps=0, epochs=0, batches=0, equal=False, cause=cause.as_data())
        )
        self._fits.warn_once(f"not equal to the earlier attempt: {cause}")

    def _batches_before(self, checkpoint: Checkpoint) -> list[int]:
        """Return the fingerprints that witnesses recorded for the batches before a checkpoint."""
        fit, at = self._fit, checkpoint.position
        if fit.fits.witnesses is None or int(fit.model.steps_per_execution) > 1:
            return []
        if fit.beginning.other_workers(checkpoint):
            return []
        mine = [w for w in fit.fits.witnesses.before if w.key == fit.identity.witness_key and w.kind == STEP]
        found = {(w.epoch, w.step): w.batch for w in mine if (w.epoch, w.step) < (at.epoch, at.step)}
        return [found[place] for place in sorted(found)]

    def _tell(self, checkpoint: Checkpoint, kind: str, seconds: float) -> None:
        at, fit = checkpoint.position, self._fit
        rate = fit.beginning.keep_edited_learning_rate(checkpoint) + self._other_origin(checkpoint)
        found = fit.beginning.changes(checkpoint) + rate
        self._fit.lost = list(dict.fromkeys(self._fit.lost))
        fit.note_here(
            Resumed(
                key=fit.identity.key,
                name=checkpoint.name,
                steps=at.steps,
                kind=kind,
                seconds=round(seconds, 3),
                changes=as_data(found),
                lost=as_data(self._fit.lost),
                meant=as_data(fit.beginning.meant(checkpoint) + rate),
            )
        )
        site = fit.identity.site
        if kind == "over":
            self._fits.say(returned("fit", site, checkpoint, self.epochs))
        else:
            where = f"epoch {at.epoch + 1}, step {fit.step + 1}"
            self._fits.say(f"resumed fit at {site} at {where} ({kind}), {seconds:.1f} s")
        if found:
            self._fits.say(f"since the checkpoint: {provenance.listed(found)}")
        for lost in self._fit.lost:
            self._fits.warn_once(f"not restored: {lost}")
        self._tell_other_batches()

    def _other_origin(self, checkpoint: Checkpoint) -> list[Reason]:
        """Return a reason if training that the restored state lacks has run before the fit in this kernel.

        Training that has not run again is told at the beginning of the fit, and training that runs a second time may
        differ in its last bits.
        """
        fits, fit = self._fits, self._fit
        if fits.not_kept or fits.sites_of_skipped(fit.identity):
            return []
        return fit.beginning.other_origin(checkpoint)

    def _tell_other_batches(self) -> None:
        expected, fit = self._fit.data.expected, self._fit
        if expected.differs_at is not None:
            cause = because("other-batches", batch=expected.differs_at + 1)
            fit.note_here(
                RepeatCompared(
                    key=fit.identity.key,
                    steps=0,
                    epochs=0,
                    batches=expected.compared,
                    equal=False,
                    cause=cause.as_data(),
                )
            )
            self._fits.warn(f"not equal to the earlier attempt: {cause}")

    def _other_data(self, checkpoint: Checkpoint) -> bool:
        """True if the data differs from the checkpoint's data, which makes the checkpoint's data position useless."""
        self._fit.beginning.facts(self._fit.epoch_iterator)
        return bool(self._fit.beginning.changes(checkpoint, provenance.DATA))


def _build_by_a_call(model: Any, iterator: Any) -> None:
    """Build a model by calling it once on zeros, since it reads values when called and therefore cannot be traced.

    The restore that follows undoes any effect of the call on Python objects and random numbers. A model that cannot be
    called, such as one with only a `train_step`, stays as it is. The restore reports any variables that are still
    missing.
    """
    try:
        spec = batches.without_optionals(iterator.element_spec)
        zeros = tf.nest.map_structure(lambda one: tf.zeros([size or 1 for size in one.shape], one.dtype), spec)
        model(zeros[0] if isinstance(zeros, tuple) else zeros)
    except Exception:
        model.built = False


def ended_before(checkpoint: Checkpoint) -> str:
    """Return the message for data that runs out before a checkpoint's position."""
    at = checkpoint.position
    return (
        f"checkpoint {checkpoint.name} is from epoch {at.epoch + 1}, step {at.step + 1}, but the data runs out"
        " before it"
    )


def returned(what: str, site: str, checkpoint: Checkpoint, epochs: int | None) -> str:
    """Return the message for a fit or loop that has already trained all the epochs that the script asks for."""
    at = checkpoint.position
    trained = counted(at.epoch, "epoch") + (f" and {counted(at.step, 'step')}" if at.step else "")
    return (
        f"{what} at {site} has already trained {trained}, and the script asks for {epochs}: the saved state is returned"
        f", and checkpoint {checkpoint.name} is kept"
    )


def may_pass(error: BaseException) -> bool:
    """True if an error, or one of its causes, is transient."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, _MAY_PASS):
            return True
        seen = seen.__cause__
    return False
