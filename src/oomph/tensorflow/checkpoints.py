"""FitCheckpoints: when a fit is saved, what of it, and how it is put back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.phases import Phase
from oomph.recovery.store import Checkpoint, CheckpointWriter, Saved
from oomph.tensorflow import callbacks, iterators, state
from oomph.tensorflow.step import Step

if TYPE_CHECKING:
    from oomph.tensorflow.fit import Fit


class FitCheckpoints:
    """The checkpoints of one fit. They are taken at the border before a step, after all callbacks of the one before."""

    def __init__(self, fit: Fit) -> None:
        self._fit, self._fits = fit, fit.fits
        self.taken = 0
        """Batches taken from the present iterator."""
        self.iterators_made = 0
        """Iterators that Keras has made over the training data."""
        self._resume: Checkpoint | None = None
        self._steps_before = self._saved_at_step = fit.fits.steps
        self._saved_at, self._cost = time.monotonic(), 0.0
        self._iterator: Any = None
        self._iterator_reason = ""
        """Why the iterator can not be saved, once that is known."""
        self._told_interval = False

    # -- saving ---------------------------------------------------------------------------------------------------

    def at_border(self, iterator: Any) -> None:
        """Save when it is time to."""
        if iterator is not self._iterator:
            self._iterator, self.taken = iterator, 0
        since = self._fits.steps - self._saved_at_step
        if self._fits.interval.due(since, time.monotonic() - self._saved_at, self._cost):
            self._save_step(iterator)

    def save_now(self, iterator: Any) -> None:
        """Save, unless the newest checkpoint is of this very step: the process is about to end."""
        if self._fits.steps != self._saved_at_step:
            self._save_step(iterator)

    def save_end(self, history: Any) -> None:
        """Keep the state that the fit ended in; its other checkpoints are not needed any more."""
        store = self._fits.store()
        if store is None:
            return
        meta = self._meta(history)
        meta["iterator_of_dataset"] = False

        def write(writer: CheckpointWriter) -> None:
            state.write_variables(writer, self._named())
            meta["iterator_of_dataset"] = self._save_dataset_iterator(writer)

        if self._save(lambda: store.save_finished(self._fit.position, meta, write), "end state") is not None:
            store.drop_steps(self._fit.identity.ordinal)

    def _save_step(self, iterator: Any) -> None:
        store = self._fits.store()
        self._saved_at, self._saved_at_step = time.monotonic(), self._fits.steps
        if store is None or self._fits.awaits_later_fit(self._fit.identity.ordinal):
            return
        meta = self._meta(self._fit.model.history)

        def write(writer: CheckpointWriter) -> None:
            state.write_variables(writer, self._named())
            callbacks.write_arrays(writer, self._fit.callbacks)
            if not self._iterator_reason:
                self._iterator_reason = iterators.save(iterator, writer.folder)

        saved = self._save(lambda: store.save_step(self._fit.position, meta, write), "checkpoint")
        if saved is not None and not self._told_interval:
            self._told_interval = True
            rule = self._fits.interval.describe(self._cost)
            self._fits.say(f"checkpoint of {saved.nbytes / 1e6:.1f} MB in {self._cost:.2f} s; next {rule}")

    def _save(self, save: Callable[[], Saved], what: str) -> Saved | None:
        if self._fits.context_lost:
            return None  # what the device holds is not to be trusted
        started = time.monotonic()
        try:
            with self._fits.session.pulse.during(Phase.CHECKPOINT):
                saved = save()
        except (CheckpointError, tf.errors.OpError, ValueError) as error:
            reason = str(getattr(error, "message", error)).splitlines()[0][:300]
            self._fit.note_here("checkpoint-failed", reason=reason)
            self._fits.say_once(f"{what} could not be written: {reason.partition(' (')[0]}; training goes on")
            return None
        finally:
            self._cost = time.monotonic() - started
            self._saved_at = time.monotonic()
        self._fits.saved = self._fits.steps
        self._fit.write_board()
        self._fit.note_here(
            "checkpoint",
            name=saved.name,
            steps=self._fits.steps,
            bytes=saved.nbytes,
            seconds=round(self._cost, 4),
            iterator=self._iterator_reason or "saved",
        )
        return saved

    def _meta(self, history: Any) -> dict[str, Any]:
        fit = self._fit
        return {
            "site": fit.identity.site,
            "fingerprint": fit.identity.fingerprint,
            "guard": fit.promise.kind,
            "random": state.random_state(),
            "history": callbacks.history_state(history),
            "callbacks": callbacks.states(fit.callbacks),
            "taken": self.taken,
            "iterators_made": self.iterators_made,
            "steps_seen": getattr(fit.epoch_iterator, "_steps_seen", 0),
            "stop_training": bool(fit.model.stop_training),
        }

    def _save_dataset_iterator(self, writer: CheckpointWriter) -> bool:
        """The position of a dataset's own shuffle seeds, which the next fit on the same dataset continues."""
        last = getattr(self._fit.epoch_iterator, "_current_iterator", None)
        if not isinstance(self._fit.arguments.get("x"), tf.data.Dataset) or not isinstance(last, tf.data.Iterator):
            return False
        return not iterators.save(last, writer.folder)

    def _named(self) -> state.Named:
        step = self._fit.model.train_function
        return state.named_slots(self._fit.model, step.extra_state() if hasattr(step, "extra_state") else [])

    # -- resuming -------------------------------------------------------------------------------------------------

    @property
    def resuming(self) -> bool:
        """Whether a checkpoint is still to be put back."""
        return self._resume is not None

    def resume_from(self, checkpoint: Checkpoint) -> None:
        """Put this checkpoint back at the first step."""
        self._resume = checkpoint
        self._fits.saved = self._saved_at_step = checkpoint.position.steps

    def start_over(self) -> None:
        """Forget the checkpoint, and the steps that it stood for."""
        self._resume = None
        self._fits.steps = self._fits.saved = self._saved_at_step = self._steps_before

    def skipped_steps(self) -> int:
        """Steps of the epoch to resume in that an earlier attempt has done."""
        return 0 if self._resume is None else self._resume.position.step

    def skipped_iterators(self) -> int:
        """How many iterators an earlier attempt had made before the one to continue, when that one was not saved."""
        if self._resume is None or iterators.is_saved(self._resume.path):
            return 0
        return max(0, int(self._resume.meta["iterators_made"]) - self.iterators_made - 1)

    def restore(self, step: Step, iterator: Any) -> None:
        """Put the state back; raises CheckpointError, with the model untouched, when it is not of this fit."""
        checkpoint, self._resume = self._resume, None
        assert checkpoint is not None
        started = time.monotonic()
        step.prepare(iterator)
        try:
            with state.restored(checkpoint, self._named()):
                kind = self._restore_iterator(checkpoint, iterator)
                state.restore_random_state(checkpoint.meta["random"])
                callbacks.restore_history(self._fit.model.history, checkpoint.meta["history"])
                callbacks.restore(self._fit.callbacks, checkpoint.meta["callbacks"], checkpoint)
        except CheckpointError as error:
            self._fit.note_here("checkpoint-refused", name=checkpoint.name, reason=str(error))
            self._fits.say(f"checkpoint {checkpoint.name} does not fit: {error}")
            raise
        at = checkpoint.position
        self._fit.step = at.step
        self._iterator, self.taken = iterator, int(checkpoint.meta["taken"])
        self.iterators_made = int(checkpoint.meta["iterators_made"])
        self._saved_at = time.monotonic()
        seconds = time.monotonic() - started
        self._fit.note_here("resumed", name=checkpoint.name, steps=at.steps, kind=kind, seconds=round(seconds, 3))
        site = self._fit.identity.site
        self._fits.say(f"resumed fit at {site} at epoch {at.epoch + 1}, step {at.step + 1} ({kind}), {seconds:.1f} s")
        self._fit.write_board()

    def _restore_iterator(self, checkpoint: Checkpoint, iterator: Any) -> str:
        if self._fit.epoch_iterator is not None:
            self._fit.epoch_iterator._steps_seen = int(checkpoint.meta["steps_seen"])
        if iterators.is_saved(checkpoint.path):
            try:
                iterators.restore(iterator, checkpoint.path)
                return "exact"
            except (tf.errors.OpError, AssertionError, ValueError) as error:
                reason = str(getattr(error, "message", error)).splitlines()[0][:200]
                self._fits.say(f"the data pipeline is not the one of the checkpoint ({reason})")
        taken = int(checkpoint.meta["taken"])
        return "replayed" if iterators.skip(iterator, taken) == taken else "epoch"
