"""One step on a batch that Python holds: carries out its plan, one action at a time, and measures memory after each.

Every failure is reported and learned from; `step_plan.py` decides what happens next.

Micro-batches are computed first, and rolled back on failure. A step that cannot be split exactly can still train on
smaller batches if the user allows it: the step itself stays intact. This is not the training that was requested: there
are more updates, at the same learning rate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from oomph.exact_step.micro_batch.exactness import REFUSED, SMALLER, Promise
from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.exact_step.step.division import Division
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import COMMIT, COMPUTE, Failed, SizeSearch, attempt
from oomph.exact_step.step.probe import FEW_SAMPLES, SAMPLES
from oomph.exact_step.step.step_plan import Action, Observed, StepPlan, next_plan
from oomph.exact_step.step.step_protocol import FailedProbe, Failure, Recovery, StepWatch
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas, cuts
from oomph.keras_bridge.graph import SmallState
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.protocol.micro_batch_sizes import size_of_new_process
from oomph.script.kept_micro_batches import Start
from oomph.terminal.amounts import as_size


class DividedBatch:
    """The micro-batches of one batch. If one fails before the commit, nothing has been applied.

    Args:
        full_batch: the step on the full batch, which knows the small state and counts commits.
        search: keeps track of how many samples fit.
        divided: the step on micro-batches.
        size: the number of samples on the busiest replica.
        one_piece: whether XLA compiles the step, and therefore allocates its memory in one block.
    """

    def __init__(
        self,
        full_batch: FullBatchStep,
        search: SizeSearch,
        divided: AccumulatedStep,
        batch: Any,
        size: int,
        one_piece: bool,
    ) -> None:
        self._full_batch, self._search, self._divided = full_batch, search, divided
        self._batch, self._size, self._one_piece = batch, size, one_piece
        self._samples = 0
        """The number of samples in the last micro-batch."""

    def go_on(self) -> Any:
        """Try the whole batch; return Keras' logs or Failed."""
        state = self._full_batch.state_of(self._batch)
        before = state.snapshot()
        try:
            outcome = self._computed(state)
        except BaseException:
            state.restore(before)
            raise
        if isinstance(outcome, Failed):
            state.restore(before)
            return outcome
        phase = COMMIT if self._divided.trains else COMPUTE
        committed = attempt(partial(self._divided.commit, outcome), phase=phase, batch=self._batch)
        self._divided.let_go()
        return replace(committed, samples=self._samples) if isinstance(committed, Failed) else committed

    def _computed(self, state: SmallState) -> Any:
        """Run everything in the step except its commit; return each replica's logs, or Failed."""
        divided, size = self._divided, self._size
        outcome = attempt(partial(divided.start, self._batch, size, state))
        if divided.micro_step.has_loops and not self._one_piece:
            self._search.expect_gaps()
        done, self._samples = 0, min(self._search.next_size(size) or 1, size)
        while not isinstance(outcome, Failed) and done < size:
            self._samples = min(self._search.next_size(size) or 1, size - done)
            outcome = self._search.run(self._samples, partial(divided.add, done, self._samples))
            done += self._samples
        if not isinstance(outcome, Failed):
            outcome = attempt(partial(divided.finish, self._full_batch.knows_size()))
        return replace(outcome, samples=self._samples) if isinstance(outcome, Failed) else outcome


# -- as smaller batches, each with its own update ---------------------------------------------------------------------


class SmallerBatches:
    """The smaller batches made from one batch. Even after a failure, each sample is trained on only once.

    Args:
        search: keeps track of how many samples fit.
        replicas: the replicas that share the batch.
        size: the number of samples on the busiest replica.
    """

    def __init__(
        self, full_batch: FullBatchStep, search: SizeSearch, replicas: Replicas, batch: Any, size: int
    ) -> None:
        self._full_batch, self._search, self._replicas = full_batch, search, replicas
        self._own, self._sizes, self._size = replicas.local(batch), replicas.sizes(batch) or [size], size
        self._done = 0

    def go_on(self) -> Any:
        """Train on the remaining samples; return Keras' logs for the last step, or Failed."""
        while True:
            left = self._size - self._done
            samples = math.ceil(left / math.ceil(left / (self._search.next_size(self._size) or 1)))
            outcome = self._search.run(samples, partial(self._full_batch.run_held, self._next(samples)))
            if isinstance(outcome, Failed):
                return replace(outcome, samples=samples)
            self._done += samples
            if self._done == self._size:
                return outcome
            self._full_batch.count_commits()

    def _next(self, samples: int) -> Any:
        places = cuts(self._sizes, self._done, samples)
        return self._replicas.together(
            [batches.part_of(own, *place) for own, place in zip(self._own, places, strict=True)]
        )


_Tried = DividedBatch | SmallerBatches
_NO_MEMORY_TO_PROBE = "too little memory is left for a probe after the full batch failed"


class StepOnBatch:
    """Runs a model's steps on batches that Python holds.

    Args:
        model: a compiled Keras model.
        new_division: creates the Division for batches of one layout.
    """

    def __init__(self, model: Any, full_batch: FullBatchStep, new_division: Callable[[], Division]) -> None:
        self._model, self._full_batch, self._new_division = model, full_batch, new_division
        self._replicas = Replicas(model.distribute_strategy)
        self.search = SizeSearch()
        self.has_fitted = False
        """True if a full batch has fitted into memory."""
        self._divisions: dict[str, Division] = {}
        self._division = new_division()
        """The division for the layout of the current batch."""
        self._has_split = False
        """True if a batch has been trained on in parts."""
        self._began_with: Start | None = None
        """The micro-batch that this process started with, or None for full batches."""

    def begin_with(self, start: Start) -> None:
        """Set the micro-batch that this process starts with. Call this before its first step."""
        self._began_with = start

    @property
    def rounding(self) -> float:
        """The relative difference between a full batch and its micro-batches; 0.0 while batches are not split."""
        return 0.0 if self.search.is_whole else self._division.rounding

    def take(self, batch: Any, size: int | None, started: float, watch: StepWatch, failed: Failed | None = None) -> Any:
        """Train on the batch; return Keras' logs.

        Args:
            batch: a nest of tensors, or None if the step failed before it had one.
            size: the number of samples on the busiest replica, or None if the tensors disagree.
            started: when the step started, on the monotonic clock.
            watch: receives the reports.
            failed: the failure of the full batch, if it has already been tried.
        """
        plan, tried = StepPlan.first(size, self.search.is_whole), None
        if size and plan.action is not Action.WHOLE:
            self._take_up(batch)
        while not plan.is_over:
            if tried is None and plan.action in (Action.DIVIDED, Action.SMALLER):
                tried = self._tried(plan.action, batch, size or 1)
            result, failed = failed or self._carried_out(plan, batch, size or 0, tried, watch), None
            if isinstance(result, Failed):
                self._learn(result, batch, size, started, watch)
            plan = next_plan(plan, result, self._observed(plan, result, size))
        if plan.action is Action.RESTART:
            assert plan.failed is not None
            watch.not_recoverable(plan.failed.error, plan.failed.phase, plan.reason, plan.begin)
        if size and tried is not None:
            self.search.settle(size)
            self._has_split = True
            if plan.ooms:
                watch.recovered(Recovery(size, self.search.chosen or 1, plan.ooms, time.monotonic() - started))
        return plan.logs

    def _carried_out(self, plan: StepPlan, batch: Any, size: int, tried: _Tried | None, watch: StepWatch) -> Any:
        """Carry out the next action; return its result: logs, Failed or a Promise."""
        match plan.action:
            case Action.WHOLE:
                outcome = self._full_batch.run_held(batch)
                self.has_fitted = self.has_fitted or not isinstance(outcome, Failed)
                return outcome
            case Action.WITHOUT_PINS:
                return self._full_batch.run_held(batch, pinned=False)
            case Action.PROBE:
                promise = self._judged(batch, size, watch)
                if promise.refused and plan.failed is None:
                    self.search.undivided()  # from now on, leave the batches of this fit whole
                return promise
        assert tried is not None
        return tried.go_on()

    def _tried(self, action: Action, batch: Any, size: int) -> _Tried:
        if action is Action.SMALLER:
            return SmallerBatches(self._full_batch, self.search, self._replicas, batch, size)
        one_piece = bool(self._model.jit_compile)
        return DividedBatch(self._full_batch, self.search, self._division.divided, batch, size, one_piece)

    def _learn(self, failed: Failed, batch: Any, size: int | None, started: float, watch: StepWatch) -> None:
        """Report a failure to the fit, and learn from it."""
        if size is not None:
            self._take_up(batch)
        seconds, samples = time.monotonic() - started, size if failed.samples is None else failed.samples
        watch.failed(Failure(failed.oom, failed.error, failed.phase, size, samples, seconds))
        if samples is not None:
            self.search.learn(failed, samples, seconds, self._division.divided.extra_bytes())

    def _observed(self, plan: StepPlan, result: Any, size: int | None) -> Observed:
        """Measure the facts that decide how the plan continues after this result."""
        failed = result if isinstance(result, Failed) else plan.failed
        if failed is None or not size or not isinstance(result, (Failed, Promise)):
            return Observed(size, None)
        next_size = self.search.next_size(size)
        if isinstance(result, Promise) and result.refused:
            can_change = self._division.verdict is None
        else:  # a new process helps if the failed full batch fragmented the memory
            can_change = next_size is None and (failed.oom.requested_bytes or 0) <= (self.search.room_bytes or 0)
        fits = plan.action is Action.WHOLE and failed is result and self._fits_without_pins(failed)
        need = (
            ""
            if next_size is not None
            else _need(failed, sum(slot.nbytes for slot in self._full_batch.trained_slots()))
        )
        fresh = self._fresh_start(size) if can_change else None
        verdict = self._division.verdict
        may_be_split = verdict is None or not verdict.refused
        return Observed(size, next_size, fits, fresh, need, may_be_split, self._has_ever_fitted)

    @property
    def _has_ever_fitted(self) -> bool:
        """True if a step has fitted, whole or in micro-batches, in this process or an earlier one."""
        start = self._began_with
        return self.has_fitted or self._has_split or (start is not None and not start.guessed)

    # -- whether micro-batches may replace the batch ----------------------------------------------------------------

    def _take_up(self, batch: Any) -> None:
        """Switch to the Division for this batch's layout."""
        layout = batches.layout_of(self._replicas.local(batch)[0])
        if layout not in self._divisions:
            self._divisions[layout] = self._new_division() if self._divisions else self._division
        self._division = self._divisions[layout]

    def _judged(self, batch: Any, size: int, watch: StepWatch) -> Promise:
        """Return the promise for micro-batches of this batch, running a probe before a layout is first split."""
        division, before = self._division, self._division.verdict
        if before is not None and not division.is_time_to_probe_again():
            return before
        self._full_batch.build_metrics(batch)

        def tell(failed: Failed, samples: int, seconds: float) -> None:
            watch.probe_failed(FailedProbe(failed.oom, min(samples, size), seconds))

        found = division.probe(batch, size, self._full_batch.state_of(batch), self._most_to_probe, tell)
        if found is None:
            assert before is not None
            return before
        if found.no_memory and self._began_with is None and self._fresh_start(size) is not None:
            return Promise(REFUSED, _NO_MEMORY_TO_PROBE)  # not final: a new process has memory for a probe
        judged = division.settle(found)
        if judged != before:
            watch.probed(judged, found)
        if judged.kind == SMALLER and self._full_batch.knows_size():
            self._full_batch.trace_sizes_apart()
        return judged

    @property
    def _most_to_probe(self) -> int:
        """The number of samples to probe with: no more than are likely to fit, since an error costs ten seconds."""
        start, most = self._began_with, self.search.likely_to_fit
        if start is not None and start.guessed:
            most = start.samples if most is None else min(most, start.samples)
        return SAMPLES if most is None else min(SAMPLES, max(FEW_SAMPLES, most))

    def _fits_without_pins(self, failed: Failed) -> bool:
        """True if the batch may have failed only because the first step under XLA also holds the variables.

        XLA first allocates its scratch memory, in one block, and then the outputs. If the failed allocation would have
        fitted next to the memory in use before the step, it was for an output that only pinning made necessary.
        """
        memory, requested = DeviceMemory.of_training_device(failed.oom.gpu), failed.oom.requested_bytes
        can_do_without = self._full_batch.pins and self._full_batch.can_go_back
        if not can_do_without or memory.limit_bytes is None or requested is None:
            return False
        return (memory.in_use_bytes() or 0) + requested <= memory.limit_bytes

    def _fresh_start(self, size: int) -> Start | None:
        """Return the micro-batch for a new process to start with, since nothing fitted here; None if that won't help.

        TensorFlow's BFC allocator never returns regions, so a kernel that needs one large block may find room in a new
        process that never tries the full batch.
        """
        samples = size_of_new_process(size, None if self._began_with is None else self._began_with.samples)
        return None if samples is None else Start(samples, guessed=True)


def _need(failed: Failed, trained_bytes: int) -> str:
    """Describe how much memory was requested and available at a failure, and the peak usage; empty if unknown.

    Memory that the step itself allocated has been freed by now, so the peak is more informative than the memory in use.
    """
    memory, asked = DeviceMemory.of_training_device(failed.oom.gpu), failed.oom.requested_bytes
    limit, peak = memory.limit_bytes, memory.peak_bytes()
    if asked is None or limit is None:
        return ""
    told = f": the step needs {as_size(asked)} in one block, but the device has {as_size(limit)} in total"
    if peak is None or asked > limit:
        return told
    if peak + asked <= limit:
        return f"{told}: at most {as_size(peak)} was in use; the rest is fragmented or held by other processes"
    trained = as_size(trained_bytes)
    return f"{told}, of which up to {as_size(peak)} was in use ({trained} by weights and optimizer slots)"
