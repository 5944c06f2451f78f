"""The exact step: one training step of a Keras model that can run out of memory without losing anything.

A step is computed first and committed last: all gradients exist before anything is assigned, the batch and the small
state (metrics, moving statistics, random seeds) are held until the commit is over. A step that fails before its commit
is rolled back and the same batch is taken again as micro-batches, whose gradients are weighted so that their sum is the
gradient of the whole batch; one commit applies it. A step that fails within its commit cannot be repaired here: it
goes back to the last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import tensorflow as tf

from oomph.recovery.script.kept_micro_batches import Start
from oomph.tensorflow.batch import batches, host_batches
from oomph.tensorflow.batch.replicas import Replicas
from oomph.tensorflow.exact_step import verdict
from oomph.tensorflow.exact_step.division import Division
from oomph.tensorflow.exact_step.full_batch_step import END_OF_DATA, Failed, FullBatchStep, attempt
from oomph.tensorflow.exact_step.probe import SAMPLES
from oomph.tensorflow.exact_step.recheck import Recheck
from oomph.tensorflow.exact_step.recomputation import Recomputation
from oomph.tensorflow.exact_step.size_search import SizeSearch
from oomph.tensorflow.exact_step.smaller_batches import SmallerBatches
from oomph.tensorflow.exact_step.train_function import Failure, Recovery, StepWatch, Taken, run_plain
from oomph.tensorflow.exact_step.verification import Verification
from oomph.tensorflow.graph import fingerprints
from oomph.tensorflow.graph.write_set import Slot, SmallState
from oomph.tensorflow.micro_batch.exactness import REFUSED, SMALLER, Promise
from oomph.tensorflow.random_numbers.stateful_ops import KeptRandomOps
from oomph.tensorflow.runtime.allocator import DeviceMemory
from oomph.tensorflow.runtime.errors import handled

_FRESH_DIVISOR = 32
"""A new process, started because nothing fitted in the old one, begins with this fraction of the batch, and the one
after it with one sample."""
_FORWARD_ONLY = 3
"""Samples that a step without gradients takes at first where training takes one: it keeps no activations."""
_SURELY_TOO_LARGE = 8
"""A batch of evaluation that is this many times the micro-batch of training is not tried as a whole."""
_NO_MEMORY_TO_PROBE = "there is no memory for a probe beside what the whole batch has left behind"


class GuardedStep:
    """The exact step of one model, for one compilation of it.

    Args:
        model: a compiled Keras model.
        step: its `train_step`, or its `test_step`.
        plain: Keras' own function that runs the step on an iterator.
        watch: gives who is to be told about the step that runs.
        promise: what may be said of micro-batches before anything is traced.
        choice: what the user accepts where micro-batches change the result.
        trains: whether the step has weights to update.
        combine: how numbers that the step returns add up over parts, "mean" or "sum"; None: found by the probe.
        can_go_back: whether there are checkpoints of what the step trains.
        witnessed: whether its batches are fingerprinted.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        plain: Callable[[Any], Any],
        watch: Callable[[], StepWatch],
        promise: Promise,
        choice: verdict.Choice,
        trains: bool = True,
        combine: str | None = None,
        can_go_back: bool = True,
        witnessed: bool = False,
    ) -> None:
        self._model, self._plain, self._watch = model, plain, watch
        self._witnessed = witnessed
        self._fingerprint: Any = None
        """Of the batches of the execution that runs."""
        self.taken: Taken | None = None
        self._trains = trains
        self._replicas = Replicas(model.distribute_strategy)
        self._whole = FullBatchStep(model, step, trains, can_go_back, witnessed)
        self._new_division = partial(
            Division, model, step, self._whole.commits if trains else None, promise, choice, combine
        )
        self._divisions: dict[str, Division] = {}
        self._division = self._new_division()
        """Of the layout that the batch in hand has."""
        self._step = step
        self._broken = False
        self._began = self._has_fitted = False
        self._began_with: Start | None = None
        """The micro-batch that this process began with; None: whole batches."""
        self._search = SizeSearch()
        self.verification: Verification | None = None
        self.recheck: Recheck | None = None
        self._on_noise: Callable[[float], None] | None = None

    def measure_noise(self, tell: Callable[[float], None]) -> None:
        """Tell, before the next step, by how much its gradients differ when they are computed more than once.

        An earlier process may have divided the batches in another way. The difference that this makes counts as noise.
        """
        self._on_noise = tell

    def __call__(self, iterator: Any) -> Any:
        if not self._whole.eagerly:  # building calls the model once more, and its Python code may count the calls
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
            self._whole.count_commits()
        self.taken = Taken(logs, self._fingerprint)
        watch.after_step()
        return logs

    def prepare(self, iterator: Any) -> None:
        """Trace the step for this kind of iterator, once; a guard that cannot be built steps aside for good."""
        if not self._broken and batches.is_dataset_iterator(iterator):
            try:
                self._whole.prepare(iterator)
            except Exception as error:  # ours or the user's: plain Keras will do, or say it in its own words
                self._step_aside(error)

    def extra_state(self) -> list[Slot]:
        """Variables that the step writes; those that neither the model nor its optimizer lists are among them."""
        return self._whole.small_state()

    @property
    def draws(self) -> KeptRandomOps:
        """The random numbers of the step that can be restored."""
        return self._whole.draws

    def hidden_state(self) -> list[str]:
        """What of the step's state TensorFlow keeps out of sight, in words."""
        return self._whole.hidden_state()

    @property
    def held_bytes(self) -> int | None:
        """How much a whole step holds back until it commits; 0: nothing, for want of room; None: not known."""
        return self._whole.held_bytes

    def _can_trace(self, batch: Any) -> bool:
        """Trace the step for a batch that Python holds; a guard that cannot be built steps aside for good."""
        try:
            self._whole.state_of(batch)
        except Exception as error:  # ours or the user's: plain Keras will do, or say it in its own words
            self._step_aside(error)
        return not self._broken

    @property
    def micro_batch(self) -> int | None:
        """The micro-batch in use; None while batches are whole."""
        return self._search.chosen

    def verify(self, steps: int) -> None:
        """Take the next steps beside plain Keras."""
        self.verification = Verification(steps, self._plain)

    def begin_with(self, start: Start) -> None:
        """Take micro-batches of that size first, unless something is known already."""
        self._search.begin(start)
        if not self._began:
            self._began_with = start

    @property
    def _is_whole(self) -> bool:
        return self._search.is_whole

    @property
    def _trained_with(self) -> int | None:
        """The micro-batch that training has come to, for an evaluation of which no whole batch has fitted yet."""
        if self._trains or self._has_fitted or not self._is_whole:
            return None
        training = getattr(self._model, "train_function", None)
        return training.micro_batch if isinstance(training, GuardedStep) else None

    def _guarded_until_the_end(self, iterator: Any, watch: StepWatch) -> Any:
        try:
            return self._guarded(iterator, watch)
        except END_OF_DATA:
            pass
        # Where Keras does not know the length of the data, its step finds out that there is no batch only as it runs:
        # what needs none has been done by then (the count of iterations, random seeds, weight decay). The guarded
        # step does none of it, so Keras' own has its turn; it raises the end of the data itself.
        return self._plain(iterator)

    def _guarded(self, iterator: Any, watch: StepWatch) -> Any:
        """One execution: a step, or up to `steps_per_execution` of them."""
        started, steps = time.monotonic(), int(self._model.steps_per_execution)
        verifying = self.verification is not None and self.verification.pending
        rechecking = self.recheck is not None and self.recheck.is_due(steps)
        in_python = verifying or rechecking or self._on_noise is not None or self._whole.eagerly
        in_python = in_python or self._trained_with is not None
        if isinstance(iterator, tf.data.Iterator) and self._is_whole and not in_python:
            outcome = self._whole.run(iterator)
            if not isinstance(outcome, Failed):
                self._fingerprint, self._has_fitted = self._whole.fingerprint, True
                return outcome
            self._see(outcome.batch, watch)
            logs = self._recovered(outcome, started, watch)
            return self._one_by_one(iterator, steps - outcome.done - 1, logs, watch)
        logs = self._one(iterator, watch, rechecking)
        return self._one_by_one(iterator, steps - 1, logs, watch)

    def _one_by_one(self, iterator: Any, steps: int, logs: Any, watch: StepWatch) -> Any:
        """The rest of an execution, without its compiled loop; the end of the data is the end of it."""
        for _ in range(steps):
            self._whole.count_commits()
            try:
                logs = self._one(iterator, watch)
            except END_OF_DATA:
                break
        return logs

    def _one(self, iterator: Any, watch: StepWatch, rechecking: bool = False) -> Any:
        """One step on a batch that Python holds."""
        started = time.monotonic()
        if batches.is_dataset_iterator(iterator):
            batch = attempt(partial(next, iterator), END_OF_DATA)
            if isinstance(batch, Failed):
                self._report(replace(batch, phase="input"), None, None, started, watch)
            batch = batches.without_optionals(batch)
        else:
            batch = next(iterator)
            batch = batch if self._whole.eagerly else host_batches.held(batch)
        self._see(batch, watch)
        if not self._can_trace(batch):
            return self._plain(iter([batch]))
        size = self._replicas.size(batch)
        if size is None:
            self._step_aside(ValueError("the parts of the batch do not share one number of samples"))
            return self._plain(iter([batch]))
        self._search.grow(size)
        if self._trained_with is not None and size > _SURELY_TOO_LARGE * self._trained_with:
            self._search.begin(Start(_FORWARD_ONLY * self._trained_with, guessed=True))
        if rechecking and self.recheck is not None:
            self.recheck.check(batch, min(size, self.micro_batch or size), self._whole.state_of(batch))
        if self._on_noise is not None:
            self._tell_noise(batch, size)
        if self.verification is not None and self.verification.pending:
            slots = [*self._whole.trained_slots(), *self._whole.state_of(batch).slots]
            return self.verification.step(batch, slots, lambda: self._on_batch(batch, size, started, watch))
        return self._on_batch(batch, size, started, watch)

    def _tell_noise(self, batch: Any, size: int) -> None:
        tell, self._on_noise = self._on_noise, None
        assert tell is not None
        try:
            noise = Recomputation(self._model, self._step).noise(
                batch, min(size, self.micro_batch or size), self._whole.state_of(batch)
            )
        except Exception:  # it cannot be computed twice, or not by itself
            noise = 0.0
        tell(noise if self._is_whole else max(noise, self._division.rounding))

    def _see(self, batch: Any, watch: StepWatch) -> None:
        """One more batch of this execution, held in Python."""
        if not self._witnessed or not watch.compares_batches or batch is None:
            return
        tensors = attempt(partial(host_batches.on_device, batch))
        if isinstance(tensors, Failed):  # the step will find out too; it is compared by what it returns
            return
        parts = [part for own in self._replicas.local(tensors) for part in batches.tensors_of(own)]
        if int(self._model.steps_per_execution) == 1:
            self._fingerprint = fingerprints.of_tensors(parts)
        else:
            before = fingerprints.none() if self._fingerprint is None else self._fingerprint
            self._fingerprint = fingerprints.joined(before, fingerprints.of_tensors(parts))

    def _on_batch(self, batch: Any, size: int, started: float, watch: StepWatch) -> Any:
        if not self._is_whole:
            self._take_up(batch)
        if size and not self._is_whole and self._may_divide(batch, size, watch):
            return self._run_divided(batch, size, started, watch)
        outcome = self._whole.run_held(batch)
        if isinstance(outcome, Failed):
            return self._recovered(outcome, started, watch)
        self._has_fitted = True
        return outcome

    # -- whether micro-batches may stand for the batch --------------------------------------------------------------

    def _may_divide(self, batch: Any, size: int, watch: StepWatch) -> bool:
        """Whether the batch may be divided, though it may fit; if not, no batch of this fit is."""
        if not self._judged(batch, size, watch).refused:
            return True
        self._search.undivided()
        return False

    def _take_up(self, batch: Any) -> None:
        """What follows is about this batch, and about others that are laid out like it."""
        layout = batches.layout_of(self._replicas.local(batch)[0])
        if layout not in self._divisions:
            self._divisions[layout] = self._new_division() if self._divisions else self._division
        self._division = self._divisions[layout]

    def _judged(self, batch: Any, size: int, watch: StepWatch) -> Promise:
        """What micro-batches of this batch are worth: found by a probe, before the first of its layout is divided."""
        division, before = self._division, self._division.verdict
        if before is not None and not division.is_time_to_probe_again():
            return before
        self._whole.build_metrics(batch)
        found = division.probe(batch, size, self._whole.state_of(batch), self._most_to_probe)
        if found is None:
            assert before is not None
            return before
        if found.no_memory and self._began_with is None and self._fresh_start(size) is not None:
            return Promise(REFUSED, _NO_MEMORY_TO_PROBE)  # not for good: in a new process there is
        judged = division.settle(found)
        if judged != before:
            watch.probed(judged, found)
        if judged.kind == SMALLER and self._whole.knows_size(batch):
            self._whole.trace_sizes_apart()
        return judged

    @property
    def _most_to_probe(self) -> int:
        """No more samples than are nearly sure to fit, where a process began anew because nothing did."""
        start = self._began_with
        return SAMPLES if start is None or not start.guessed else min(SAMPLES, max(4, start.samples))

    # -- after a failure ------------------------------------------------------------------------------------------

    def _recovered(self, failed: Failed, started: float, watch: StepWatch) -> Any:
        """Complete the step that failed as a whole."""
        size = None if failed.batch is None else self._replicas.size(failed.batch)
        if size is not None:
            self._take_up(failed.batch)
        self._report(failed, size, size, started, watch)
        if size is None:
            watch.not_recoverable(failed.error, "compute", "the parts of the batch do not share one size", None)
        if self._fits_without_pins(failed):
            outcome = self._whole.run_held(failed.batch, pinned=False)
            if not isinstance(outcome, Failed):
                return outcome
            self._report(outcome, size, size, started, watch)
        promise = self._judged(failed.batch, size, watch)
        if promise.refused:
            fresh = self._fresh_start(size) if self._division.verdict is None else None
            watch.not_recoverable(failed.error, "compute", f"micro-batches are refused: {promise.reason}", fresh)
        return self._run_divided(failed.batch, size, started, watch, failed)

    def _fits_without_pins(self, failed: Failed) -> bool:
        """Whether the batch may only have failed for what the first step under XLA holds in addition.

        XLA takes its scratch memory first, in one piece, and the outputs after it: a piece that would have fitted
        beside what was in use before the step is an output that pinning has made necessary.
        """
        memory, requested = DeviceMemory.of_training_device(failed.oom.gpu), failed.oom.requested_bytes
        if not self._whole.pins or not self._whole.can_go_back or memory.limit_bytes is None or requested is None:
            return False
        return (memory.in_use_bytes() or 0) + requested <= memory.limit_bytes

    def _report(
        self, failed: Failed, batch: int | None, micro_batch: int | None, started: float, watch: StepWatch
    ) -> None:
        """Tell the fit, learn from the failure, and go back to the checkpoint when the step cannot be repaired."""
        seconds = time.monotonic() - started
        watch.failed(Failure(failed.oom, failed.error, failed.phase, batch, micro_batch, seconds))
        if micro_batch is not None:
            self._search.learn(failed, micro_batch, seconds, self._division.divided.extra_bytes())
        if failed.phase != "compute":
            size = None if batch is None else self._search.next_size(batch)
            # Parts have fitted, and their update has not: larger ones would leave it even less.
            guessed = not failed.oom.whole_step and micro_batch == batch
            begin = None if size is None else Start(size, guessed)
            watch.not_recoverable(failed.error, failed.phase, f"out of memory in the {failed.phase} phase", begin)

    # -- in micro-batches -----------------------------------------------------------------------------------------

    def _run_divided(
        self, batch: Any, size: int, started: float, watch: StepWatch, failed: Failed | None = None
    ) -> Any:
        ooms = 1 if failed else 0
        go_on: Callable[[], tuple[Any, int]] = partial(self._try_divided, batch, size)
        if self._division.verdict is not None and self._division.verdict.kind == SMALLER:
            go_on = SmallerBatches(self._whole, self._search, self._replicas, batch, size).go_on
        while True:
            if failed is not None and self._search.next_size(size) is None:
                self._give_up(failed, size, watch)
            outcome, part = go_on()
            if not isinstance(outcome, Failed):
                break
            failed, ooms = outcome, ooms + 1
            self._report(failed, size, part, started, watch)
        self._search.settle(size)
        if ooms:
            watch.recovered(Recovery(size, self._search.chosen or 1, ooms, time.monotonic() - started))
        return outcome

    def _give_up(self, failed: Failed, size: int, watch: StepWatch) -> NoReturn:
        """Not even one sample fits. Beside the pieces that a failed whole step has cut the memory into, that is.

        TensorFlow's BFC allocator never gives regions back, so a kernel that needs one large piece may find room in a
        new process that never tries the whole batch; one that began with one sample has nothing left to try.
        """
        in_pieces = (failed.oom.requested_bytes or 0) <= (self._search.room_bytes or 0)
        fresh = self._fresh_start(size) if in_pieces else None
        reason = "one sample does not fit"
        if fresh is not None:
            reason += " beside what the whole batch has left behind"
        else:
            reason += _need(failed)
        watch.not_recoverable(failed.error, failed.phase, reason, fresh)

    def _try_divided(self, batch: Any, size: int) -> tuple[Any, int]:
        """One try of the step in micro-batches: Keras' logs or Failed, and the size of the last part."""
        state = self._whole.state_of(batch)
        before = state.snapshot()
        try:
            outcome, part = self._computed(batch, size, state)
        except BaseException:
            state.restore(before)
            raise
        if isinstance(outcome, Failed):
            state.restore(before)
            return outcome, part
        committed = attempt(self._division.divided.commit) if self._trains else None
        self._division.divided.let_go()
        if isinstance(committed, Failed):
            return Failed(committed.oom, committed.error, "commit", batch), part
        return outcome, part

    def _computed(self, batch: Any, size: int, state: SmallState) -> tuple[Any, int]:
        """All of the step but its commit."""
        divided = self._division.divided
        outcome = attempt(partial(divided.start, batch, size, state))
        if divided.part.has_loops and not self._model.jit_compile:  # XLA takes its memory in one piece
            self._search.expect_gaps()
        done, part = 0, min(self._search.next_size(size) or 1, size)
        while not isinstance(outcome, Failed) and done < size:
            part = min(self._search.next_size(size) or 1, size - done)
            outcome = self._search.run(part, partial(divided.add, done, part))
            done += part
        if not isinstance(outcome, Failed):
            outcome = attempt(partial(divided.finish, self._whole.knows_size(batch)))
        return outcome, part

    def _step_aside(self, error: BaseException) -> None:
        self._broken = True
        self._watch().guard_broken(error)

    def _fresh_start(self, size: int) -> Start | None:
        """What a new process begins with, because nothing fitted in this one; None: there is no point in one."""
        if size <= 1:
            return None
        if self._began_with is None:
            return Start(max(1, size // _FRESH_DIVISOR), guessed=True)
        return Start(1, guessed=True) if self._began_with.samples > 1 else None


def _need(failed: Failed) -> str:
    """How much the step asked for, and how much there is, in words; empty where neither is known."""
    asked, limit = failed.oom.requested_bytes, DeviceMemory.of_training_device(failed.oom.gpu).limit_bytes
    if asked is None or limit is None:
        return ""
    return (
        f": the step asks for {asked / 2**20:.0f} MiB in one piece, and the device has {limit / 2**20:.0f} MiB in all"
    )
