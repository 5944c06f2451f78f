"""Fit: one call of `model.fit` under guard. It resumes, checkpoints, and is told about every step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.store import Checkpoint, CheckpointWriter, Position, Saved
from oomph.tensorflow import callbacks, exactness, iterators, state
from oomph.tensorflow.fits import Fits
from oomph.tensorflow.guarded import GuardedStep
from oomph.tensorflow.identity import FitIdentity
from oomph.tensorflow.memory import DeviceMemory
from oomph.tensorflow.step import Failure, Recovery, Step


class Fit:
    """One running fit: where it is, and what it does between two steps.

    Args:
        fits: the fits of this process.
        model: the compiled model.
        identity: which fit this is.
        promise: how it is guarded, as far as it is known before tracing.
        arguments: the bound arguments of `fit`, to be passed on.
    """

    def __init__(
        self, fits: Fits, model: Any, identity: FitIdentity, promise: exactness.Promise, arguments: dict[str, Any]
    ) -> None:
        self._fits, self.model, self.identity, self.promise = fits, model, identity, promise
        self.arguments = arguments
        self.epoch = int(arguments.get("initial_epoch") or 0)
        self.step = 0
        self.epoch_iterator: Any = None
        self.iterators_made = 0
        self._in_epoch = False
        """False while Keras, under a strategy, looks at the data to build the model: nothing is skipped for that."""
        self._user_callbacks = callbacks.listed(arguments.get("callbacks"))
        self._resume: Checkpoint | None = None
        self._announced = False
        self._taken = 0  # batches taken from the present iterator
        self._iterator: Any = None
        self._iterator_reason = ""
        self._started = time.monotonic()
        self._last_saved_at, self._last_saved_step, self._last_cost = time.monotonic(), fits.steps, 0.0
        self._first_step = self._steps_before = fits.steps
        self._told_interval = False
        self._resumed = False
        self._initial_epoch: Any = None

    # -- start and end --------------------------------------------------------------------------------------------

    def resume_from(self, checkpoint: Checkpoint) -> None:
        """Start at the position of a checkpoint; its state is put back right before the first step."""
        self._resume, self._resumed = checkpoint, True
        self.epoch, self._fits.steps = checkpoint.position.epoch, checkpoint.position.steps
        self._fits.saved = self._last_saved_step = self._first_step = checkpoint.position.steps
        callbacks.continue_logs(self._user_callbacks)

    def start_over(self) -> None:
        """The checkpoint turned out not to be of this model: begin at the beginning, said aloud."""
        self._resume = None
        self.model._initial_epoch = None
        self.epoch_iterator = None
        self._fits.steps = self._fits.saved = self._last_saved_step = self._first_step = self._steps_before
        self._fits.say(f"fit at {self.identity.site} starts from its beginning")

    @property
    def skipped_steps(self) -> int:
        """Steps at the start of the first epoch that an earlier attempt has done."""
        return 0 if self._resume is None or not self._in_epoch else self._resume.position.step

    def iterators_to_replay(self) -> int:
        """How many iterators an earlier attempt had made before the one to continue, when that one was not saved."""
        if self._resume is None or not self._in_epoch or iterators.is_saved(self._resume.path):
            return 0
        return max(0, int(self._resume.meta["iterators_made"]) - self.iterators_made - 1)

    def begin_training(self) -> None:
        """Called after the user's own `on_train_begin` callbacks: the epoch to start with is settled here."""
        self._initial_epoch = self.model._initial_epoch
        if self._resume is not None:
            self.model._initial_epoch = self._resume.position.epoch

    def end_training(self) -> None:
        """Called when Keras' fit is left, however: the next fit of this model begins where it says itself."""
        if self._resumed:
            self.model._initial_epoch = self._initial_epoch

    def begin_epoch(self, epoch: int) -> None:
        """Called at the start of every epoch."""
        self.epoch, self.step, self._in_epoch = epoch, 0, True

    def finish(self, history: Any) -> None:
        """The fit has returned: keep its end state, so that a restarted script need not train it again."""
        store = self._fits.store()
        seconds = time.monotonic() - self._started
        if store is not None and self._announced:
            meta = self._meta(history=callbacks.history_state(history))
            meta["iterator_of_dataset"] = False

            def write(writer: CheckpointWriter) -> None:
                state.write_variables(writer, self._named())
                meta["iterator_of_dataset"] = self._save_dataset_iterator(writer)

            if self._save(lambda: store.save_finished(self._position(), meta, write), "end state") is not None:
                store.drop_steps(self.identity.ordinal)
        peak = DeviceMemory.of_training_device().peak_bytes()
        self._fits.note(
            "fit-finished",
            fit=self.identity.ordinal,
            steps=self._fits.steps - self._first_step,
            micro_batch=self._micro_batch(),
            guard=self.promise.kind,
            seconds=round(seconds, 3),
            device_peak_bytes=peak,
        )

    # -- StepWatch ------------------------------------------------------------------------------------------------

    def before_step(self, step: Step, iterator: Any) -> None:
        """The border between two steps: announce, resume, or checkpoint when it is time."""
        if not self._announced:
            self._announce(step)
        if self._resume is not None:
            self._restore(step, iterator)
        if iterator is not self._iterator:
            self._iterator, self._taken = iterator, 0
        since = self._fits.steps - self._last_saved_step
        if self._fits.interval.due(since, time.monotonic() - self._last_saved_at, self._last_cost):
            self._checkpoint(step, iterator)

    def after_step(self) -> None:
        """One more execution is committed: one step, or `steps_per_execution` of them."""
        count = self.model.steps_per_execution
        self.step += count
        self._taken += count
        self._fits.steps += count
        self._write_board()

    def failed(self, failure: Failure) -> None:
        """A step ran out of memory."""
        self._fits.note(
            "oom",
            fit=self.identity.ordinal,
            epoch=self.epoch,
            step=self.step,
            batch=failure.batch,
            micro_batch=failure.micro_batch,
            phase=failure.phase,
            message=failure.oom.line,
            requested_bytes=failure.oom.requested_bytes,
            seconds=round(failure.seconds, 3),
        )
        if failure.phase == "compute":
            self._fits.say(
                f"out of memory at batch {failure.micro_batch} (epoch {self.epoch + 1}, step {self.step + 1}); "
                "nothing was applied, trying the same batch as micro-batches"
            )

    def recovered(self, recovery: Recovery) -> None:
        """A step was completed in micro-batches."""
        self._fits.remember_micro_batch(self.identity.ordinal, recovery.micro_batch)
        self._fits.note(
            "recovered",
            fit=self.identity.ordinal,
            epoch=self.epoch,
            step=self.step,
            batch=recovery.batch,
            micro_batch=recovery.micro_batch,
            ooms=recovery.ooms,
            seconds=round(recovery.seconds, 3),
        )
        self._fits.say(
            f"recovered in {recovery.seconds:.1f} s: batch {recovery.batch} goes on as micro-batches of "
            f"{recovery.micro_batch} ({self.promise.kind})"
        )

    def not_recoverable(self, error: BaseException, phase: str, reason: str, micro_batch: int | None) -> NoReturn:
        """Back to the checkpoint where that can help; otherwise the user's own error."""
        if micro_batch is not None:
            self._fits.remember_micro_batch(self.identity.ordinal, micro_batch)
        self._fits.go_back_or_give_up(error, reason, can_restart=phase in ("commit", "input"))

    def guard_broken(self, error: BaseException) -> None:
        """The guard can not be built for this model: the fit goes on as plain Keras."""
        self.promise = exactness.Promise(exactness.RESTART_ONLY, f"the guard failed ({type(error).__name__})")
        self._fits.note("guard-failed", reason=f"{type(error).__name__}: {error}"[:2000])

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def _announce(self, step: Step) -> None:
        self._announced = True
        if isinstance(step, GuardedStep):
            self.promise = exactness.promise_after_tracing(self.promise, self.model, step.extra_state())
            size = self._fits.remembered_micro_batch(self.identity.ordinal)
            if size is not None and step.sizing.chosen is None and step.sizing.failed is None:
                step.sizing = replace(step.sizing, chosen=size)
        self._fits.note(
            "fit-started",
            fit=self.identity.ordinal,
            site=self.identity.site,
            guard=self.promise.kind,
            reason=self.promise.reason,
            fingerprint=self.identity.fingerprint,
            epochs=self.arguments.get("epochs"),
        )
        self._fits.say(f"guarding fit at {self.identity.site} ({self.promise})")
        self._write_board()

    def _checkpoint(self, step: Step, iterator: Any) -> None:
        store = self._fits.store()
        self._last_saved_at, self._last_saved_step = time.monotonic(), self._fits.steps
        if store is None or self._fits.awaits_later_fit(self.identity.ordinal):
            return
        meta = self._meta(history=callbacks.history_state(self.model.history))

        def write(writer: CheckpointWriter) -> None:
            state.write_variables(writer, self._named())
            callbacks.write_arrays(writer, self._user_callbacks)
            if not self._iterator_reason:
                self._iterator_reason = iterators.save(iterator, writer.folder)

        saved = self._save(lambda: store.save_step(self._position(), meta, write), "checkpoint")
        if saved is not None and not self._told_interval:
            self._told_interval = True
            rule = self._fits.interval.describe(self._last_cost)
            self._fits.say(f"checkpoint of {saved.nbytes / 1e6:.1f} MB in {self._last_cost:.2f} s; next {rule}")

    def _save(self, save: Callable[[], Saved], what: str) -> Saved | None:
        started = time.monotonic()
        try:
            saved = save()
        except (CheckpointError, tf.errors.OpError, ValueError) as error:
            reason = str(getattr(error, "message", error)).splitlines()[0][:300]
            self._fits.note("checkpoint-failed", reason=reason)
            self._fits.say(f"{what} could not be written: {reason}; training goes on")
            return None
        finally:
            self._last_cost = time.monotonic() - started
            self._last_saved_at = time.monotonic()
        self._fits.saved = self._fits.steps
        self._write_board()
        self._fits.note(
            "checkpoint",
            name=saved.name,
            fit=self.identity.ordinal,
            epoch=self.epoch,
            step=self.step,
            steps=self._fits.steps,
            bytes=saved.nbytes,
            seconds=round(self._last_cost, 4),
            iterator=self._iterator_reason or "saved",
        )
        return saved

    def _restore(self, step: Step, iterator: Any) -> None:
        checkpoint, self._resume = self._resume, None
        assert checkpoint is not None
        started = time.monotonic()
        meta = checkpoint.meta
        try:
            step.prepare(iterator)
            state.restore_variables(checkpoint, self._named())
        except CheckpointError as error:
            self._fits.note("checkpoint-refused", name=checkpoint.name, reason=str(error))
            self._fits.say(f"checkpoint {checkpoint.name} does not belong to this fit: {error}")
            raise
        kind = self._restore_iterator(checkpoint, iterator)
        state.restore_random_state(meta["random"])
        callbacks.restore_history(self.model.history, meta["history"])
        callbacks.restore(self._user_callbacks, meta["callbacks"], checkpoint)
        self.step = checkpoint.position.step
        self._iterator, self._taken = iterator, int(meta["taken"])
        self._last_saved_at = time.monotonic()
        seconds = time.monotonic() - started
        at = checkpoint.position
        self._fits.note(
            "resumed", name=checkpoint.name, fit=at.fit, epoch=at.epoch, step=at.step, steps=at.steps, kind=kind,
            seconds=round(seconds, 3),
        )  # fmt: skip
        self._fits.say(
            f"resumed fit at {self.identity.site} at epoch {at.epoch + 1}, step {at.step + 1} ({kind}), {seconds:.1f} s"
        )
        self._write_board()

    def _restore_iterator(self, checkpoint: Checkpoint, iterator: Any) -> str:
        taken = int(checkpoint.meta["taken"])
        if self.epoch_iterator is not None:
            self.epoch_iterator._steps_seen = int(checkpoint.meta["steps_seen"])
        if iterators.is_saved(checkpoint.path):
            iterators.restore(iterator, checkpoint.path)
            return "exact"
        return "replayed" if iterators.skip(iterator, taken) == taken else "epoch"

    # -- pieces ---------------------------------------------------------------------------------------------------

    def _named(self) -> state.Named:
        extra = self.model.train_function.extra_state() if hasattr(self.model.train_function, "extra_state") else []
        return state.named_slots(self.model, extra)

    def _position(self) -> Position:
        return Position(self.identity.ordinal, self.epoch, self.step, self._fits.steps)

    def _meta(self, history: Any) -> dict[str, Any]:
        return {
            "site": self.identity.site,
            "fingerprint": self.identity.fingerprint,
            "guard": self.promise.kind,
            "random": state.random_state(),
            "history": history,
            "callbacks": callbacks.states(self._user_callbacks),
            "taken": self._taken,
            "iterators_made": self.iterators_made,
            "steps_seen": getattr(self.epoch_iterator, "_steps_seen", 0),
            "stop_training": bool(self.model.stop_training),
        }

    def _save_dataset_iterator(self, writer: CheckpointWriter) -> bool:
        """The position of a dataset's own shuffle seeds, which the next fit on the same dataset continues."""
        last = getattr(self.epoch_iterator, "_current_iterator", None)
        if not isinstance(self.arguments.get("x"), tf.data.Dataset) or not isinstance(last, tf.data.Iterator):
            return False
        return not iterators.save(last, writer.folder)

    def _micro_batch(self) -> int | None:
        step = self.model.train_function
        return step.sizing.chosen if isinstance(step, GuardedStep) else None

    def _write_board(self) -> None:
        board = self._fits.session.board
        if board is not None:
            board.write(self.identity.ordinal, self.epoch, self.step, self._fits.steps, self._fits.saved)
