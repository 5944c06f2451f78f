"""One step on a batch that Python holds: which outcome it has, and what follows from a failure. In the script.

The full batch is tried first. Where it does not fit, a probe says whether micro-batches may stand for it, and the
search which size fits. Every failure is reported, learned from, and either overcome here or left to a new process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from oomph.recovery.script.kept_micro_batches import Start
from oomph.tensorflow.batch import batches
from oomph.tensorflow.batch.replicas import Replicas
from oomph.tensorflow.exact_step.attempt import Failed
from oomph.tensorflow.exact_step.divided_batch import DividedBatch
from oomph.tensorflow.exact_step.division import Division
from oomph.tensorflow.exact_step.full_batch_step import FullBatchStep
from oomph.tensorflow.exact_step.probe import SAMPLES
from oomph.tensorflow.exact_step.size_search import SizeSearch
from oomph.tensorflow.exact_step.smaller_batches import SmallerBatches
from oomph.tensorflow.exact_step.train_function import Failure, Recovery, StepWatch
from oomph.tensorflow.micro_batch.exactness import REFUSED, SMALLER, Promise
from oomph.tensorflow.runtime.allocator import DeviceMemory

_FRESH_DIVISOR = 32
"""A new process, started because nothing fitted in the old one, begins with this fraction of the batch, and the one
after it with one sample."""
_NO_MEMORY_TO_PROBE = "there is no memory for a probe beside what the whole batch has left behind"


class StepOnBatch:
    """The owner of the outcomes of a model's steps: nobody else decides what a failure means.

    Args:
        model: a compiled Keras model.
        full_batch: its step on full batches.
        new_division: makes what divides the batches of one layout.
    """

    def __init__(self, model: Any, full_batch: FullBatchStep, new_division: Callable[[], Division]) -> None:
        self._model, self._full_batch, self._new_division = model, full_batch, new_division
        self._replicas = Replicas(model.distribute_strategy)
        self.search = SizeSearch()
        self.has_fitted = False
        """Whether a full batch has."""
        self._divisions: dict[str, Division] = {}
        self._division = new_division()
        """Of the layout that the batch in hand has."""
        self._began_with: Start | None = None
        """The micro-batch that this process began with; None: whole batches."""

    def begin_with(self, start: Start) -> None:
        """Remember what this process begins with, before its first step."""
        self._began_with = start

    @property
    def rounding(self) -> float:
        """The relative difference between a whole batch and its micro-batches; 0.0 while batches are whole."""
        return 0.0 if self.search.is_whole else self._division.rounding

    def take(self, batch: Any, size: int, started: float, watch: StepWatch) -> Any:
        """Train on the batch; returns Keras' logs."""
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
        """Complete the step that failed as a whole."""
        size = None if failed.batch is None else self._replicas.size(failed.batch)
        if size is not None:
            self._take_up(failed.batch)
        self.report(failed, size, size, started, watch)
        if size is None:
            watch.not_recoverable(failed.error, "compute", "the parts of the batch do not share one size", None)
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
        """Tell the fit, learn from the failure, and go back to the checkpoint when the step cannot be repaired."""
        seconds = time.monotonic() - started
        watch.failed(Failure(failed.oom, failed.error, failed.phase, batch, micro_batch, seconds))
        if micro_batch is not None:
            self.search.learn(failed, micro_batch, seconds, self._division.divided.extra_bytes())
        if failed.phase != "compute":
            size = None if batch is None else self.search.next_size(batch)
            # Parts have fitted, and their update has not: larger ones would leave it even less.
            guessed = not failed.oom.whole_step and micro_batch == batch
            begin = None if size is None else Start(size, guessed)
            watch.not_recoverable(failed.error, failed.phase, f"out of memory in the {failed.phase} phase", begin)

    # -- whether micro-batches may stand for the batch --------------------------------------------------------------

    def _may_divide(self, batch: Any, size: int, watch: StepWatch) -> bool:
        """Whether the batch may be divided, though it may fit; if not, no batch of this fit is."""
        if not self._judged(batch, size, watch).refused:
            return True
        self.search.undivided()
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
        self._full_batch.build_metrics(batch)
        found = division.probe(batch, size, self._full_batch.state_of(batch), self._most_to_probe)
        if found is None:
            assert before is not None
            return before
        if found.no_memory and self._began_with is None and self._fresh_start(size) is not None:
            return Promise(REFUSED, _NO_MEMORY_TO_PROBE)  # not for good: in a new process there is
        judged = division.settle(found)
        if judged != before:
            watch.probed(judged, found)
        if judged.kind == SMALLER and self._full_batch.knows_size(batch):
            self._full_batch.trace_sizes_apart()
        return judged

    @property
    def _most_to_probe(self) -> int:
        """No more samples than are nearly sure to fit, where a process began anew because nothing did."""
        start = self._began_with
        return SAMPLES if start is None or not start.guessed else min(SAMPLES, max(4, start.samples))

    def _fits_without_pins(self, failed: Failed) -> bool:
        """Whether the batch may only have failed for what the first step under XLA holds in addition.

        XLA takes its scratch memory first, in one piece, and the outputs after it: a piece that would have fitted
        beside what was in use before the step is an output that pinning has made necessary.
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
        """Not even one sample fits. Beside the pieces that a failed whole step has cut the memory into, that is.

        TensorFlow's BFC allocator never gives regions back, so a kernel that needs one large piece may find room in a
        new process that never tries the whole batch; one that began with one sample has nothing left to try.
        """
        in_pieces = (failed.oom.requested_bytes or 0) <= (self.search.room_bytes or 0)
        fresh = self._fresh_start(size) if in_pieces else None
        reason = "one sample does not fit"
        if fresh is not None:
            reason += " beside what the whole batch has left behind"
        else:
            reason += _need(failed)
        watch.not_recoverable(failed.error, failed.phase, reason, fresh)

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
