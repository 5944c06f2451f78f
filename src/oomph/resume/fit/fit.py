"""Fit: one guarded call to `model.fit`, which tracks its position and is notified of every step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from oomph.checkpoint.container import Checkpoint
from oomph.errors import TrainingStoppedError, UnsupportedError
from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.micro_batch.micro_batch_step import essence
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.probe import ProbeFinding
from oomph.exact_step.step.recheck import Inconsistent, Recheck
from oomph.exact_step.step.step_protocol import FailedProbe, Failure, Recovery, Step, facts_of_probe
from oomph.journal.events import BatchSkipped, GradientsDiffer, GuardFailed, NoWitnesses, ProbeFailed
from oomph.keras_bridge.batch.replicas import outside_strategy_scope
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.errors import outcome_of
from oomph.keras_bridge.workers import spans_workers
from oomph.protocol.progress import Phase
from oomph.resume.fit import callbacks, model_state, reporting, written_files
from oomph.resume.fit.checkpoints import FitCheckpoints
from oomph.resume.fit.reporting import tell_own_resume, tell_unsavable
from oomph.resume.fit.resumption import CannotResumeError, Resumption, ended_before
from oomph.resume.fit.running import FitProof, RunningFit
from oomph.resume.state import iterators
from oomph.resume.training import leaving, provenance, retaking
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity
from oomph.script.kept_micro_batches import Start

_ITERATORS = 10
"""An upper bound on the number of iterators over the data in one epoch."""


class Fit(RunningFit):
    """A running fit. Accepts the same arguments as `RunningFit`."""

    def __init__(
        self,
        fits: Fits,
        model: Any,
        identity: FitIdentity,
        promise: exactness.Promise,
        arguments: dict[str, Any],
        turn: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(fits, model, identity, promise, arguments, turn)
        self.checkpoints = FitCheckpoints(self.weakly)
        self.resumption = Resumption(self.weakly)
        fits.files.begin()
        self._started = time.monotonic()
        self._first_step = fits.steps
        self._announced = False
        self._in_epoch = False
        """False while Keras, under a strategy, reads data only to build the model, when steps must not be skipped."""
        self._resumed = False
        self.returns = False
        """True if an earlier attempt finished the fit, in which case its end state may be returned."""
        self._start_of_next: tuple[Any] | None = None
        """Keras' original initial epoch, once it has been replaced for this fit."""
        self._failed: Checkpoint | None = None
        """The checkpoint being restored, or one whose restoration failed."""
        self._clean_at = 0
        """The run's step count at the last gradient comparison that did not find a difference."""
        self._stepped = False
        """True if this process has taken a step in this fit."""
        self._poison = fits.session.handover.changed("skip-batch")

    # -- start and end --------------------------------------------------------------------------------------------

    def cannot_be_of_it(self, checkpoint: Checkpoint) -> str | None:
        """Return why a checkpoint cannot belong to this fit, judging by its position alone, or None if it can."""
        at, made = checkpoint.position, checkpoint.meta.iterators_made or 0
        first = 0 if self.beginning.script_was_edited(checkpoint) else self.epoch
        planned = provenance.epochs_of(checkpoint) or self.resumption.epochs
        if planned is not None and not first <= at.epoch < max(planned, first + 1):
            return f"it was saved in epoch {at.epoch + 1}, but the fit runs epochs {first + 1} to {planned}"
        steps = provenance.steps_of_an_epoch(checkpoint)
        is_known = not spans_workers(self.model.distribute_strategy)  # a worker's own data may end before its epoch
        if steps is not None and is_known and at.step > steps:
            return f"it was saved in step {at.step + 1}, but an epoch has {steps}"
        if made > _ITERATORS * (at.epoch + 1) + _ITERATORS:
            return f"it claims {made} iterators by epoch {at.epoch + 1}"
        return None

    def resume_from(self, checkpoint: Checkpoint) -> None:
        """Start at a checkpoint's position; the saved state is restored right before the first step."""
        self._resumed = True
        self.epoch, self.fits.steps = checkpoint.position.epoch, checkpoint.position.steps
        self._first_step = checkpoint.position.steps
        self.resumption.checkpoint = checkpoint
        self.checkpoints.count_from(checkpoint.position.steps)
        callbacks.continue_logs(self.callbacks, checkpoint.position.epoch, written_files.states_in(checkpoint))

    def older_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint before the one that could not be restored, or None if the data cannot start over."""
        failed, self._failed = self._failed, None
        self.forget_input()
        self._in_epoch = False
        one_pass = iterators.is_one_pass(self.arguments.get("x"))
        return None if failed is None or one_pass else self.fits.checkpoint_before(failed)

    @property
    def logs_before(self) -> dict[str, float]:
        """The logs of the last step before the checkpoint, or an empty dict once this attempt has taken a step."""
        return {} if self._stepped else self.resumption.logs

    def forget_input(self) -> None:
        """Forget the iterators, since Keras will create new ones."""
        self.epoch_iterator, self.data.iterators_made = None, 0
        self.validation.forget()

    @property
    def skipped_steps(self) -> int:
        """The number of steps that an earlier attempt completed in the epoch that is starting."""
        return self.resumption.skipped_steps() if self._in_epoch else 0

    @property
    def skipped_epochs(self) -> int:
        """The number of epochs that an earlier attempt completed before the one that is starting."""
        return self.resumption.skipped_epochs() if self._in_epoch else 0

    def pass_over_iterators(self, epochs: Any) -> None:
        """Advance the data of a resumed fit past the iterators that an earlier attempt created."""
        if self._in_epoch:
            self.resumption.pass_over_iterators(epochs)

    def prepare_data(self) -> bool:
        """Restore the objects behind the data to their state in an earlier attempt, before an epoch reads its data.

        Returns True if that state was saved, in which case nothing else needs to be done.
        """
        return self._in_epoch and self.resumption.prepare_data()

    @outside_strategy_scope()
    def begin_training(self) -> None:
        """Set the epoch to start at, after the user's `on_train_begin` callbacks."""
        self.objects.begin(to_be_resumed=self._resumed)
        self.trained = model_state.Trained(self.model)
        if self._resumed:
            self._start_at(self.epoch)
            self.resumption.restore_early()
        else:
            self.proof.compare_from(self.epoch, 0)
        self._drop_repeated_events()

    def return_if_over(self) -> None:
        """Restore the saved state if no step remains that would restore it.

        If that fails, raises CannotResumeError and leaves the model untouched.
        """
        checkpoint = self.resumption.checkpoint
        if checkpoint is None or not self.resumption.is_over(checkpoint):
            return
        step, self._failed = self.model.train_function, checkpoint
        try:
            if not self._announced:
                self._announce(step)
            self.resumption.restore(step, iter(KERAS.distributed_dataset.of(self.epoch_iterator)))
        except CannotResumeError:
            raise
        except Exception as error:  # an error in oomph or in the data, after which the model would stay untrained
            raise CannotResumeError(f"checkpoint {checkpoint.name}: {essence(error)}", passing=False) from error
        self.is_over = True

    def check_restored(self) -> None:
        """Raise CannotResumeError if Keras' fit has ended, yet no step ran that would have restored the checkpoint."""
        if self.resumption.checkpoint is not None:
            self._failed = self.resumption.checkpoint
            raise CannotResumeError(ended_before(self._failed), passing=False)

    def _start_at(self, epoch: int) -> None:
        if self._start_of_next is None:  # it is already set if an older checkpoint is being tried
            self._start_of_next = (KERAS.initial_epoch.of(self.model),)
        KERAS.initial_epoch.put(self.model, epoch)

    @outside_strategy_scope()
    def begin_epoch(self, epoch: int) -> None:
        """Start an epoch. If a checkpoint is pending, again restore everything that the epoch's callbacks may read."""
        self.epoch, self.step, self._in_epoch = epoch, 0, True
        if self.resumption.pending:
            self.resumption.restore_early()  # the state from before the callbacks start this epoch a second time
        if self._stepped:
            self.fits.beat(Phase.EPOCH_START)
            self.write_board()

    @outside_strategy_scope()
    def end_epoch_steps(self) -> None:
        """Report that an epoch's steps are done; its validation and callbacks follow."""
        if self._stepped:
            self.fits.beat(Phase.EPOCH_END)
            self.write_board(is_epoch_over=True)
            self._tell(reporting.tell_short_epoch)

    @outside_strategy_scope()
    def leave(self) -> None:
        """Clean up after Keras' fit, no matter how it exits. Restores Keras' initial epoch for the model's next fit."""
        self.fits.profile.end()
        self.checkpoints.settle(wait=not self.fits.preemption.is_hurried)
        self.fits.files.end()
        data = self.arguments.get("x")
        if self._resumed and iterators.is_one_pass(data):
            self.fits.passed_on.append(data)
        if self._start_of_next is not None:
            KERAS.initial_epoch.put(self.model, self._start_of_next[0])

    def tell_interrupted(self) -> None:
        """Report how many steps are saved when a KeyboardInterrupt stops Keras' fit."""
        self.checkpoints.settle(wait=not self.fits.preemption.is_hurried)
        leaving.tell_interrupted(self.fits, self.note_here)

    @outside_strategy_scope()
    def end_epoch(self) -> None:
        """Write the epoch's witness after all other callbacks, since their effects are part of the state."""
        if self._stepped:
            self.proof.epoch_end(self.epoch, self.step)

    @outside_strategy_scope()
    def finish(self, history: Any) -> None:
        """Save the end state once Keras' fit has returned, so that a restarted script need not train again."""
        seconds = time.monotonic() - self._started
        self.proof.end(self.epoch, self.step)
        reporting.tell_verification(self, at_the_end=True)
        reporting.tell_recheck(self)
        ends = self._announced and not self.is_over  # keep a checkpoint that covers more epochs
        saved = self.checkpoints.save_end(history) if ends else None
        steps, too_dear = self.fits.steps - self._first_step, self.checkpoints.end_state_was_too_dear
        reporting.tell_end(self, steps, seconds, history, saved, too_dear)

    @outside_strategy_scope()
    def leave_if_preempted(self) -> None:
        """Exit the process if preemption was requested after the last step."""
        if self.fits.preemption.asked and self.fits.own_session().is_owner_now():
            leaving.leave_as_asked(self.fits, self.note_here)

    # -- StepWatch ------------------------------------------------------------------------------------------------

    @outside_strategy_scope()
    def before_step(self, step: Step, iterator: Any) -> None:
        """Announce or resume the fit if that is still to be done, and save a checkpoint if one is due.

        Called between two steps.
        """
        try:
            if not self._announced:
                self._announce(step)
            if self.resumption.pending:
                self._failed = self.resumption.checkpoint
                with self.fits.session.pulse.during(Phase.RESUMING, after=Phase.FIRST_STEP):
                    self.resumption.restore(step, iterator)
                    self.checkpoints.count_from(self.fits.saved)
            self.checkpoints.at_border(iterator)
            if self.checkpoints.is_to_stop():
                self.checkpoints.save_now()
                leaving.leave_as_asked(self.fits, self.note_here)
            if self._poison:
                self._skip_poison(iterator)
        except (CannotResumeError, TrainingStoppedError):
            raise  # intercept.py falls back to the previous checkpoint, or ends the run
        except Exception as error:  # an error in oomph itself must not stop training
            self.note_here(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))
            self.fits.warn_once(
                f"{type(error).__name__}: {error}; training continues, without checkpoints while this error persists"
            )
        self.fits.profile.before_step(self.fits.steps, self.model.steps_per_execution)

    @outside_strategy_scope()
    def after_step(self) -> None:
        """Count a committed execution, which is one step or `steps_per_execution` of them, and write its witness."""
        count = self.model.steps_per_execution
        self.fits.profile.after_step(self.fits.steps + count)
        self._leave_witness(count)
        self.step += count
        self.fits.steps += count
        self.data.taken += count
        is_first, self._stepped = not self._stepped, True
        self.fits.beat(Phase.STEP)
        self.write_board()
        self.measure_step()
        reporting.tell_verification(self, at_the_end=False)
        reporting.tell_aside(self)
        if is_first:
            self._tell(tell_unsavable)

    def _leave_witness(self, count: int) -> None:
        try:
            self.proof.step(self.epoch, self.step, self.model.train_function.taken, count)
        except Exception as error:  # an error in oomph itself must not stop training
            self.proof = FitProof(self.weakly, None)
            self.note_here(NoWitnesses(reason=f"{type(error).__name__}: {error}"[:2000]))

    def failed(self, failure: Failure) -> None:
        """Report that a step ran out of memory."""
        self.fits.beat(Phase.RECOVERING)
        reporting.tell_out_of_memory(self, failure)

    def recovered(self, recovery: Recovery) -> None:
        """Report that a step was completed in micro-batches, and remember the micro-batch size."""
        self.fits.remember_micro_batch(self.identity, Start(recovery.micro_batch))
        self.data.step_recovered(recovery.seconds)
        reporting.tell_recovery(self, recovery)

    def probe_failed(self, failed: FailedProbe) -> None:
        """Report that a probe ran out of memory."""
        self.note_here(ProbeFailed(**facts_of_probe(failed)))

    def probed(self, promise: exactness.Promise, finding: ProbeFinding) -> None:
        """Adopt a probe's verdict on the micro-batches, and report it."""
        self.promise = promise
        self.fits.note_probe(promise, finding, fit=self.identity.ordinal)

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        """Restart from the checkpoint if that can help; otherwise raise the user's error."""
        leaving.go_back_or_give_up(self.fits, self.identity, error, phase, reason, begin)

    def guard_broken(self, error: BaseException) -> None:
        """Record that the guard cannot be built for this model, so that the fit continues as plain Keras."""
        if isinstance(error, UnsupportedError):
            self.promise = exactness.Promise(exactness.RESTART_ONLY, str(error))
            return
        self.promise = exactness.Promise(exactness.RESTART_ONLY, f"tracing the step {outcome_of(error)}")
        self.note_here(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))
        self.aside = f"fit at {self.identity.site} continues as plain Keras: {essence(error)}"

    # -- silent faults --------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Record that two computations of a step's gradients agreed, so all checkpoints so far can be trusted."""
        self._clean_at = self.fits.steps

    def _inconsistent(self, found: Inconsistent) -> None:
        """Restart in a new process from a state saved before the device started to produce wrong results."""
        self.note_here(GradientsDiffer(**asdict(found)))
        reason = (
            f"two computations of the same gradients on {found.device} differ by {found.difference:.1g}"
            f" ({found.variable}; a third agrees with {found.third})"
        )
        self.fits.warn(f"silent fault at epoch {self.epoch + 1}, step {self.step + 1}: {reason}")
        self.checkpoints.set_aside_after(self._clean_at)
        leaving.restart_from_checkpoint(self.fits, reason, "hardware-fault")

    def _drop_repeated_events(self) -> None:
        """Remove the TensorBoard events that earlier attempts logged and that this attempt will log again."""
        session = self.fits.own_session()
        taken_at = self.resumption.as_of
        if session.handover.attempt == 1 or not session.is_owner_now() or (self._resumed and taken_at is None):
            return
        try:
            callbacks.drop_repeated_events(
                self.callbacks, session.run_dir, session.handover.attempt, self.identity.ordinal, taken_at
            )
        except Exception as error:  # an unexpected kind of file or folder must not stop training
            self.fits.note(GuardFailed(reason=f"event files: {type(error).__name__}: {error}"[:2000]))

    # -- reporting ------------------------------------------------------------------------------------------------

    def _tell(self, tell: Callable[[RunningFit], None]) -> None:
        """Run a report without letting its failure stop training."""
        try:
            tell(self)
        except Exception as error:  # an error in oomph itself must not stop training
            self.note_here(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))

    def _skip_poison(self, iterator: Any) -> None:
        """Skip the batches of steps that failed twice, if the user allows that (`--skip-poison`)."""
        here = f"fit {self.identity.ordinal + 1}, epoch {self.epoch + 1}, step {self.step + 1}"
        while here in self._poison:
            self._poison.remove(here)
            self.data.taken += retaking.skip(iterator, 1, retaking.Watched(self.fits.say), retaking.Expected())
            self.note_here(BatchSkipped())
            self.fits.say(f"skipping the batch at {here}")

    def _announce(self, step: Step) -> None:
        self._announced = True
        if isinstance(step, GuardedStep):
            self._set_up(step)
        else:
            self._settle_for_restarts()
        reporting.tell_start(self, step)
        if not self._resumed and tell_own_resume(self):
            self._first_step = self.fits.steps
            self.checkpoints.begin_at(self.fits.steps)
            self.proof.compare_loaded(self.epoch)
        self.write_board()

    def _set_up(self, step: GuardedStep) -> None:
        """Update the promise now that the step is traced, and apply the user's options to the step."""
        self.promise = exactness.promise_after_tracing(self.promise, self.model, step.extra_state())
        guarding, begin = self.fits.session.handover.guarding, self.fits.remembered_micro_batch(self.identity)
        if begin is not None:
            step.begin_with(begin)
        if guarding.verify:
            step.verify(guarding.verify)
        if guarding.recheck:
            self._clean_at = self.fits.steps
            step.recheck = Recheck(
                self.model, self.model.train_step, guarding.recheck, self._inconsistent, self._clean
            )  # fmt: skip

    def _settle_for_restarts(self) -> None:
        """Rely on restarts alone, since steps are not guarded if the train function isn't Keras' own."""
        if self.promise.kind != exactness.RESTART_ONLY:
            self.promise = exactness.Promise(exactness.RESTART_ONLY, "a train function that is not Keras' own")
        if self.fits.session.handover.guarding.recheck:
            self.fits.say_once("--recheck: oomph cannot get this fit's gradients, so nothing is compared")
