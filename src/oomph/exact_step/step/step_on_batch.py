"""One step on a batch that Python holds: its outcome, and the reaction to a failure.

The full batch is tried first. If it does not fit, a probe decides whether micro-batches may replace it, and a search
finds the size that fits. Every failure is reported and learned from. It is resolved here or left to a new process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from oomph.exact_step.micro_batch.exactness import REFUSED, SMALLER, Promise
from oomph.exact_step.step.divided_batch import DividedBatch
from oomph.exact_step.step.division import Division
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import Failed
from oomph.exact_step.step.probe import SAMPLES
from oomph.exact_step.step.size_search import SizeSearch
from oomph.exact_step.step.smaller_batches import SmallerBatches
from oomph.exact_step.step.step_protocol import Failure, Recovery, StepWatch
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.script.kept_micro_batches import Start
from oomph.terminal.amounts import as_size

_FRESH_DIVISOR = 32
"""A new process, started because nothing fit in the old one, begins with 1/32 of the batch. The next one begins with
one sample."""
_NO_MEMORY_TO_PROBE = "there is no memory for a probe beside what the full batch left allocated"


class StepOnBatch:
    """Runs the steps of a model, and alone decides what a failure means.

    Args:
        model: a compiled Keras model.
        full_batch: its step on full batches.
        new_division: creates the Division for batches of one layout.
    """

    def __init__(self, model: Any, full_batch: FullBatchStep, new_division: Callable[[], Division]) -> None:
        self._model, self._full_batch, self._new_division = model, full_batch, new_division
        self._replicas = Replicas(model.distribute_strategy)
        self.search = SizeSearch()
        self.has_fitted = False
        """True if a full batch has fit."""
        self._divisions: dict[str, Division] = {}
        self._division = new_division()
        """The division for the layout of the current batch."""
        self._began_with: Start | None = None
        """The micro-batch that this process began with; None: full batches."""

    def begin_with(self, start: Start) -> None:
        """Remember what this process begins with, before its first step."""
        self._began_with = start

    @property
    def rounding(self) -> float:
        """The relative difference between a full batch and its micro-batches; 0.0 while batches are whole."""
        return 0.0 if self.search.is_whole else self._division.rounding

    def take(self, batch: Any, size: int, started: float, watch: StepWatch) -> Any:
        """Train on the batch. Returns Keras' logs."""
        if not self.search.is_whole:
            self._take_up(batch)
        if size and not self.search.is_whole and self._may_divide(batch, size, watch):
            return self._run_divided(batch, size, started, watch)
        outcome = self._full_batch.run_held(batch)
        if isinstance(outcome, Failed):
            return self.recover(outcome, started, watch)
        self.has_fitted = True
        return outcome

    def recover(self, failed: Failed, started: float, watch: StepWatch) -> Any:
        """Complete the step that failed on the full batch."""
        size = None if failed.batch is None else self._replicas.size(failed.batch)
        if size is not None:
            self._take_up(failed.batch)
        self.report(failed, size, size, started, watch)
        if size is None:
            reason = "the tensors of the batch have different numbers of samples"
            watch.not_recoverable(failed.error, "compute", reason, None)
        if self._fits_without_pins(failed):
            outcome = self._full_batch.run_held(failed.batch, pinned=False)
            if not isinstance(outcome, Failed):
                return outcome
            self.report(outcome, size, size, started, watch)
        promise = self._judged(failed.batch, size, watch)
        if promise.refused:
            fresh = self._fresh_start(size) if self._division.verdict is None else None
            watch.not_recoverable(failed.error, "compute", f"micro-batches are refused: {promise.reason}", fresh)
        return self._run_divided(failed.batch, size, started, watch, failed)

    def report(
        self, failed: Failed, batch: int | None, micro_batch: int | None, started: float, watch: StepWatch
    ) -> None:
        """Report the failure to the fit and learn from it. Go back to the checkpoint if the step cannot be repaired."""
        seconds = time.monotonic() - started
        watch.failed(Failure(failed.oom, failed.error, failed.phase, batch, micro_batch, seconds))
        if micro_batch is not None:
            self.search.learn(failed, micro_batch, seconds, self._division.divided.extra_bytes())
        if failed.phase != "compute":
            size = None if batch is None else self.search.next_size(batch)
            # Micro-batches fit, but their update did not: larger ones would leave it even less memory.
            guessed = not failed.oom.whole_step and micro_batch == batch
            begin = None if size is None else Start(size, guessed)
            watch.not_recoverable(failed.error, failed.phase, f"out of memory in the {failed.phase} phase", begin)

    # -- whether micro-batches may replace the batch ----------------------------------------------------------------

    def _may_divide(self, batch: Any, size: int, watch: StepWatch) -> bool:
        """True if this batch, which may fit, may be split. If not, no batch of this fit is split."""
        if not self._judged(batch, size, watch).refused:
            return True
        self.search.undivided()
        return False

    def _take_up(self, batch: Any) -> None:
        """Switch to the Division for the layout of this batch."""
        layout = batches.layout_of(self._replicas.local(batch)[0])
        if layout not in self._divisions:
            self._divisions[layout] = self._new_division() if self._divisions else self._division
        self._division = self._divisions[layout]

    def _judged(self, batch: Any, size: int, watch: StepWatch) -> Promise:
        """The exactness of micro-batches of this batch. A probe runs before the first batch of a layout is split."""
        division, before = self._division, self._division.verdict
        if before is not None and not division.is_time_to_probe_again():
            return before
        self._full_batch.build_metrics(batch)
        found = division.probe(batch, size, self._full_batch.state_of(batch), self._most_to_probe)
        if found is None:
            assert before is not None
            return before
        if found.no_memory and self._began_with is None and self._fresh_start(size) is not None:
            return Promise(REFUSED, _NO_MEMORY_TO_PROBE)  # not final: a new process has memory for it
        judged = division.settle(found)
        if judged != before:
            watch.probed(judged, found)
        if judged.kind == SMALLER and self._full_batch.knows_size(batch):
            self._full_batch.trace_sizes_apart()
        return judged

    @property
    def _most_to_probe(self) -> int:
        """The number of samples to probe with: few enough to fit, if this process was started because nothing fit."""
        start = self._began_with
        return SAMPLES if start is None or not start.guessed else min(SAMPLES, max(4, start.samples))

    def _fits_without_pins(self, failed: Failed) -> bool:
        """True if the batch may have failed only because the first step under XLA also holds the variables.

        XLA allocates its scratch memory first, in one block, and then the outputs. An allocation that would have fit
        beside the memory in use before the step is an output that only pinning made necessary.
        """
        memory, requested = DeviceMemory.of_training_device(failed.oom.gpu), failed.oom.requested_bytes
        if (
            not self._full_batch.pins
            or not self._full_batch.can_go_back
            or memory.limit_bytes is None
            or requested is None
        ):
            return False
        return (memory.in_use_bytes() or 0) + requested <= memory.limit_bytes

    # -- in micro-batches -----------------------------------------------------------------------------------------

    def _run_divided(
        self, batch: Any, size: int, started: float, watch: StepWatch, failed: Failed | None = None
    ) -> Any:
        ooms = 1 if failed else 0
        tried = self._tried(batch, size)
        while True:
            if failed is not None and self.search.next_size(size) is None:
                self._give_up(failed, size, watch)
            outcome, part = tried.go_on()
            if not isinstance(outcome, Failed):
                break
            failed, ooms = outcome, ooms + 1
            self.report(failed, size, part, started, watch)
        self.search.settle(size)
        if ooms:
            watch.recovered(Recovery(size, self.search.chosen or 1, ooms, time.monotonic() - started))
        return outcome

    def _tried(self, batch: Any, size: int) -> DividedBatch | SmallerBatches:
        verdict = self._division.verdict
        if verdict is not None and verdict.kind == SMALLER:
            return SmallerBatches(self._full_batch, self.search, self._replicas, batch, size)
        one_piece = bool(self._model.jit_compile)
        return DividedBatch(self._full_batch, self.search, self._division.divided, batch, size, one_piece)

    def _give_up(self, failed: Failed, size: int, watch: StepWatch) -> NoReturn:
        """Report that not even one sample fits, at least in the memory that the failed full batch has fragmented.

        TensorFlow's BFC allocator never returns regions, so a kernel that needs one large block may find room in a new
        process that never tries the full batch. A process that began with one sample has nothing left to try.
        """
        in_pieces = (failed.oom.requested_bytes or 0) <= (self.search.room_bytes or 0)
        fresh = self._fresh_start(size) if in_pieces else None
        reason = "one sample does not fit"
        if fresh is not None:
            reason += " beside what the full batch left allocated"
        else:
            reason += _need(failed, sum(slot.nbytes for slot in self._full_batch.trained_slots()))
        watch.not_recoverable(failed.error, failed.phase, reason, fresh)

    def _fresh_start(self, size: int) -> Start | None:
        """The start of a new process where nothing fit in this one; None if a new process would not help."""
        if size <= 1:
            return None
        if self._began_with is None:
            return Start(max(1, size // _FRESH_DIVISOR), guessed=True)
        return Start(1, guessed=True) if self._began_with.samples > 1 else None


def _need(failed: Failed, trained_bytes: int) -> str:
    """The requested and the available memory, in words, and what became of the rest; empty unless both are known."""
    memory, asked = DeviceMemory.of_training_device(failed.oom.gpu), failed.oom.requested_bytes
    limit, peak = memory.limit_bytes, memory.peak_bytes()
    if asked is None or limit is None:
        return ""
    told = f": the step needs {as_size(asked)} in one block, and the device has {as_size(limit)} in total"
    if peak is None or asked > limit:
        return told
    if peak + asked <= limit:
        return f"{told}: at most {as_size(peak)} were in use, and the rest is in smaller pieces or held by others"
    return f"{told}, of which {as_size(peak)} were in use ({as_size(trained_bytes)} by weights and optimizer slots)"
