"""Trains on a batch as several smaller batches, each with its own update, if the user allows that.

A step that cannot be split exactly can still train on a smaller batch: the step itself stays intact. It is not the
training that the user asked for: there are more updates, at the same learning rate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import Failed
from oomph.exact_step.step.size_search import SizeSearch
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas, cuts


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
        """Train on the rest. Returns Keras' logs of the last step, or Failed."""
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
