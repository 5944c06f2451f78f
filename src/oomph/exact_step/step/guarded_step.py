"""The exact step: a Keras model's training step that can run out of memory without losing anything.

A step computes first and commits last: all gradients exist before anything is assigned, and the batch and the small
state (metrics, moving statistics, random seeds) are held until the commit has finished. A step that fails before its
commit is rolled back. The same batch is then retried as micro-batches, whose weighted gradients add up to the gradient
of the full batch, and one commit applies the sum. A step that fails within its commit cannot be repaired here: the run
goes back to the last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from oomph.exact_step.micro_batch.exactness import Promise
from oomph.exact_step.step import division
from oomph.exact_step.step.division import Division
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import END_OF_DATA, INPUT, Failed, attempt
from oomph.exact_step.step.recheck import Recheck, Recomputation
from oomph.exact_step.step.step_on_batch import StepOnBatch
from oomph.exact_step.step.step_protocol import StepWatch, Taken, run_plain
from oomph.exact_step.step.verification import Verification
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas, outside_strategy_scope
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import Slot, compiled
from oomph.keras_bridge.runtime.errors import handled
from oomph.keras_bridge.stateful_random_ops import KeptRandomOps
from oomph.protocol.reasons import Reason
from oomph.script.kept_micro_batches import Start

_FORWARD_ONLY = 3
"""A step without gradients starts with this many times the training micro-batch, since it keeps no activations."""
_SURELY_TOO_LARGE = 8
"""An evaluation batch larger than this many times the training micro-batch is not tried as a whole."""


class GuardedStep:
    """The exact step of one compiled model.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step` or `test_step`.
        plain: Keras' own function that runs the step on an iterator.
        watch: returns the receiver of reports about the current step.
        promise: what is known about micro-batches before anything is traced.
        choice: what the user accepts if micro-batches change the result.
        trains: whether the step updates weights.
        combine: how returned numbers are combined over micro-batches, "mean" or "sum", or None to let the probe find
            out.
        can_go_back: whether there are checkpoints of the state that the step trains.
        witnessed: whether to fingerprint the step's batches.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        plain: Callable[[Any], Any],
        watch: Callable[[], StepWatch],
        promise: Promise,
        choice: division.Choice,
        trains: bool = True,
        combine: str | None = None,
        can_go_back: bool = True,
        witnessed: bool = False,
    ) -> None:
        self._model, self._plain, self._watch = model, plain, watch
        self._witnessed = witnessed
        self._fingerprint: Any = None
        """The fingerprint of the batches in the current execution."""
        self.taken: Taken | None = None
        self._trains = trains
        self._keras, self._replicas = dialect_of(model), Replicas(model.distribute_strategy)
        self._fetch = _fetch if self._replicas.collectives is None else compiled(self._fetched)
        """Takes the next batch. Several workers agree each time if any of them has one, within a compiled function."""
        self._full_batch = FullBatchStep(model, step, trains, can_go_back, witnessed)
        commits = self._full_batch.commits if trains else None
        divided = partial(Division, model, step, commits, promise, choice, combine, self._full_batch.draws)
        self._on_batch = StepOnBatch(model, self._full_batch, divided)
        self._search = self._on_batch.search
        self._step = step
        self._broken = self._began = False
        self.verification: Verification | None = None
        self.recheck: Recheck | None = None
        self._on_noise: Callable[[float], None] | None = None

    def measure_noise(self, tell: Callable[[float], None]) -> None:
        """Compute the gradients of the next step twice before it runs, and report how much they differ.

        An earlier process may have split the batches differently. The difference that this causes counts as noise as
        well.
        """
        self._on_noise = tell

    def __call__(self, iterator: Any) -> Any:
        with outside_strategy_scope():
            return self._executed(iterator)

    def _executed(self, iterator: Any) -> Any:
        if not self._full_batch.eagerly:  # building calls an eager model once more, and its code may count calls
            self.prepare(iterator)
        watch = self._watch()
        watch.before_step(self, iterator)
        self._began = True
        if self._broken:
            logs = run_plain(self._plain, iterator, watch)
        else:
            self._fingerprint = None
            with handled():
                logs = self._guarded_until_the_end(iterator, watch)
            self._full_batch.count_commits()
        self.taken = Taken(logs, self._fingerprint)
        watch.after_step()
        return logs

    def prepare(self, iterator: Any) -> None:
        """Trace the step for this kind of iterator, once. If that fails, plain Keras takes over permanently."""
        if self._broken or self._full_batch.fetches_from(iterator):
            return
        if batches.is_dataset_iterator(iterator):
            try:
                self._full_batch.prepare(iterator)
            except Exception as error:  # an error in oomph or in user code: plain Keras works, or raises its own error
                self._step_aside(error)

    def extra_state(self) -> list[Slot]:
        """List the variables that the step writes, including any that neither the model nor its optimizer lists."""
        return self._full_batch.small_state()

    @property
    def draws(self) -> KeptRandomOps:
        """The counts of the step's random operations, which can be restored."""
        return self._full_batch.draws

    def hidden_state(self) -> list[Reason]:
        """Return the reasons why some of the step's state, hidden by TensorFlow, cannot be saved."""
        return self._full_batch.hidden_state()

    @property
    def held_bytes(self) -> int | None:
        """The bytes that a full batch holds back until it commits: 0 if there is no room, None if unknown."""
        return self._full_batch.held_bytes

    def _can_trace(self, batch: Any) -> bool:
        """Trace the step for a batch that Python holds. If that fails, plain Keras takes over permanently."""
        try:
            self._full_batch.state_of(batch)
        except Exception as error:  # an error in oomph or in user code: plain Keras works, or raises its own error
            self._step_aside(error)
        return not self._broken

    @property
    def micro_batch(self) -> int | None:
        """The size of the micro-batch in use, in samples, or None while batches are not split."""
        return self._search.chosen

    def verify(self, steps: int) -> None:
        """Compare the next `steps` steps with plain Keras."""
        self.verification = Verification(steps, self._plain, self._model)

    def begin_with(self, start: Start) -> None:
        """Start with micro-batches of this size, unless a size is already known."""
        self._search.begin(start)
        if not self._began:
            self._on_batch.begin_with(start)

    @property
    def _is_whole(self) -> bool:
        return self._search.is_whole

    @property
    def _trained_with(self) -> int | None:
        """The size of a training micro-batch, for an evaluation before any full batch has fitted; None otherwise."""
        if self._trains or self._on_batch.has_fitted or not self._is_whole:
            return None
        training = getattr(self._model, "train_function", None)
        return training.micro_batch if isinstance(training, GuardedStep) else None

    def _guarded_until_the_end(self, iterator: Any, watch: StepWatch) -> Any:
        try:
            return self._guarded(iterator, watch)
        except END_OF_DATA:
            pass
        # If Keras does not know the length of the data, its step finds that the data is exhausted only while it runs.
        # By then it has done everything that needs no batch (iteration count, random seeds, weight decay). The guarded
        # step does none of that, so Keras' own step runs here and raises the end-of-data error itself.
        return self._plain(iterator)

    def _guarded(self, iterator: Any, watch: StepWatch) -> Any:
        """Run one execution: one step, or up to `steps_per_execution` steps."""
        started, steps = time.monotonic(), self._keras.steps_per_execution(self._model)
        verifying = self.verification is not None and self.verification.pending
        rechecking = self.recheck is not None and self.recheck.is_due(steps)
        in_python = verifying or rechecking or self._on_noise is not None or self._full_batch.eagerly
        in_python = in_python or self._trained_with is not None
        if self._full_batch.fetches_from(iterator) and self._is_whole and not in_python:
            outcome = self._full_batch.run(iterator, lambda: self._fetch(iterator)[0])
            if not isinstance(outcome, Failed):
                self._fingerprint, self._on_batch.has_fitted = self._full_batch.fingerprint, True
                return outcome
            self._see(outcome.batch, watch)
            size = None if outcome.batch is None else self._replicas.size(outcome.batch)
            logs = self._on_batch.take(outcome.batch, size, started, watch, outcome)
            return self._one_by_one(iterator, steps - outcome.done - 1, logs, watch)
        logs = self._one(iterator, watch, rechecking)
        return self._one_by_one(iterator, steps - 1, logs, watch)

    def _one_by_one(self, iterator: Any, steps: int, logs: Any, watch: StepWatch) -> Any:
        """Run the rest of an execution without its compiled loop, until the data is exhausted."""
        for _ in range(steps):
            self._full_batch.count_commits()
            try:
                logs = self._one(iterator, watch)
            except END_OF_DATA:
                break
        return logs

    def _one(self, iterator: Any, watch: StepWatch, rechecking: bool = False) -> Any:
        """Run one step on a batch that Python holds."""
        started = time.monotonic()
        if batches.is_dataset_iterator(iterator):
            fetched = attempt(partial(self._fetch, iterator), END_OF_DATA, phase=INPUT)
            if isinstance(fetched, Failed):
                failed = replace(fetched, samples=self.micro_batch)
                return self._on_batch.take(None, None, started, watch, failed)
            batch, fingerprint = batches.without_optionals(fetched[0]), fetched[1]
        else:
            batch, fingerprint = next(iterator), None
            batch = batch if self._full_batch.eagerly else batches.held(batch)
        self._see(batch, watch, fingerprint)
        if not self._can_trace(batch):
            return self._plain(iter([batch]))
        size = self._replicas.size(batch)
        if size is None:
            self._step_aside(ValueError("the tensors of the batch have different numbers of samples"))
            return self._plain(iter([batch]))
        self._search.grow(size)
        if self._trained_with is not None and size > _SURELY_TOO_LARGE * self._trained_with:
            self._search.begin(Start(_FORWARD_ONLY * self._trained_with, guessed=True))
        if rechecking and self.recheck is not None:
            self.recheck.check(batch, min(size, self.micro_batch or size), self._full_batch.state_of(batch))
        if self._on_noise is not None:
            self._tell_noise(batch, size)
        if self.verification is not None and self.verification.pending:
            slots = [*self._full_batch.trained_slots(), *self._full_batch.state_of(batch).slots]
            return self.verification.step(batch, slots, lambda: self._on_batch.take(batch, size, started, watch))
        return self._on_batch.take(batch, size, started, watch)

    def _tell_noise(self, batch: Any, size: int) -> None:
        tell, self._on_noise = self._on_noise, None
        assert tell is not None
        try:
            noise = Recomputation(self._model, self._step).noise(
                batch, min(size, self.micro_batch or size), self._full_batch.state_of(batch)
            )
        except Exception:  # the step cannot be computed twice, or cannot be computed alone
            noise = 0.0
        tell(max(noise, self._on_batch.rounding))

    def _see(self, batch: Any, watch: StepWatch, fingerprint: Any = None) -> None:
        """Add a batch that Python holds to the fingerprint of this execution.

        Args:
            fingerprint: the batch's own fingerprint, or None if it has yet to be computed.
        """
        if not self._witnessed or not watch.compares_batches or batch is None:
            return
        if fingerprint is None:
            tensors = attempt(partial(batches.on_device, batch))
            if isinstance(tensors, Failed):  # the step will run out of memory too; its logs are compared instead
                return
            fingerprint = self._fingerprint_of(tensors)
        if self._keras.steps_per_execution(self._model) == 1:
            self._fingerprint = fingerprint
        else:
            before = fingerprints.none() if self._fingerprint is None else self._fingerprint
            self._fingerprint = fingerprints.joined(before, fingerprint)

    def _fetched(self, iterator: Any) -> tuple[Any, Any]:
        """Trace how the next batch is taken, along with its fingerprint."""
        batch = iterator.get_next()
        seen = self._fingerprint_of(batches.without_optionals(batch)) if self._witnessed else fingerprints.none()
        return batch, seen

    def _fingerprint_of(self, batch: Any) -> Any:
        return fingerprints.of_tensors(
            [part for own in self._replicas.local(batch) for part in batches.tensors_of(own)]
        )

    def _step_aside(self, error: BaseException) -> None:
        self._broken = True
        self._watch().guard_broken(error)


def _fetch(iterator: Any) -> tuple[Any, Any]:
    return next(iterator), None
