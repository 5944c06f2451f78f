"""Trains on one batch in parts: in micro-batches with one commit, or as smaller batches, each with its own update.

Micro-batches are computed first, and rolled back on a failure. A step that cannot be split exactly can still train on
smaller batches if the user allows that: the step itself stays intact. It is not the training that was asked for: there
are more updates, at the same learning rate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import COMMIT, Failed, attempt
from oomph.exact_step.step.size_search import SizeSearch
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas, cuts
from oomph.keras_bridge.graph.write_set import SmallState


class DividedBatch:
    """The micro-batches of one batch. A failure before the commit leaves nothing applied.

    Args:
        full_batch: the step on the full batch, which knows the small state and counts commits.
        search: knows how many samples fit.
        divided: the step on micro-batches.
        batch: a nest of eager tensors.
        size: the samples of the replica that has the most.
        one_piece: whether XLA compiles the step, and so allocates its memory in one block.
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
        """Try the whole batch. Returns Keras' logs or Failed."""
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
        if self._divided.trains:
            committed = attempt(self._divided.commit, phase=COMMIT, batch=self._batch)
            outcome = replace(committed, samples=self._samples) if isinstance(committed, Failed) else outcome
        self._divided.let_go()
        return outcome

    def _computed(self, state: SmallState) -> Any:
        """Run all of the step except its commit."""
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
            outcome = attempt(partial(divided.finish, self._full_batch.knows_size(self._batch)))
        return replace(outcome, samples=self._samples) if isinstance(outcome, Failed) else outcome


# -- as smaller batches, each with its own update ---------------------------------------------------------------------


class SmallerBatches:
    """The smaller batches of one batch. After a failure, no sample is trained on twice.

    Args:
        full_batch: the step on a batch.
        search: knows how many samples fit.
        replicas: the replicas that share the batch.
        batch: a nest of eager tensors.
        size: the samples of the replica that has the most.
    """

    def __init__(
        self, full_batch: FullBatchStep, search: SizeSearch, replicas: Replicas, batch: Any, size: int
    ) -> None:
        self._full_batch, self._search, self._replicas = full_batch, search, replicas
        self._own, self._sizes, self._size = replicas.local(batch), replicas.sizes(batch) or [size], size
        self._done = 0

    def go_on(self) -> Any:
        """Train on the samples that are left. Returns Keras' logs of the last step, or Failed."""
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
