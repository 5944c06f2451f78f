"""Division: how batches of one layout are split into micro-batches, and the verdict on the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import EXACT, TO_BE_PROBED, Promise
from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchStep
from oomph.exact_step.step import verdict
from oomph.exact_step.step.probe import ProbeFinding
from oomph.keras_bridge.graph.write_set import SmallState


class Division:
    """One step of a model for batches of one layout (`batches.layout_of`), and the verdict on splitting them.

    A batch with sample weights and one without are two steps: different operations run, and different weights may have
    gradients. A probe of one says nothing about the other.

    Args:
        model: a compiled Keras model.
        step: its `train_step`, or its `test_step`.
        commits: the variable that counts commits; None for a step that trains nothing.
        promise: what is known about micro-batches before anything is traced.
        choice: what the user accepts if micro-batches change the result.
        combine: how returned numbers combine over micro-batches, "mean" or "sum"; None: the probe finds out.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        commits: tf.Variable | None,
        promise: Promise,
        choice: verdict.Choice,
        combine: str | None = None,
    ) -> None:
        self._model, self._step = model, step
        self._promise, self._choice = promise, choice
        self.divided = AccumulatedStep(model, MicroBatchStep(model, step, trains=commits is not None), commits)
        self.divided.combine = combine
        self.verdict: Promise | None = None
        """The promise for micro-batches; None before a probe."""
        self.rounding = 0.0
        """The relative difference between full batch and micro-batches that the probe found."""
        self._steps, self._next_probe = 0, 2

    def is_time_to_probe_again(self) -> bool:
        """True after 2, 5, 11, 23, ... divided steps, if only a probe supports the verdict.

        A coupling may show only in rare samples. Counts the divided steps, so call it once for each.
        """
        if self._promise.kind != TO_BE_PROBED or self.verdict is None or self.verdict.kind != EXACT:
            return False
        self._steps += 1
        if self._steps < self._next_probe:
            return False
        self._next_probe = 2 * self._next_probe + 1
        return True

    def probe(self, batch: Any, size: int, small: SmallState, most: int) -> ProbeFinding | None:
        """Probe with samples of this batch. Returns None if it shows nothing but an earlier probe did.

        Args:
            size: the samples of the replica that has the most.
            small: the state that the step writes besides weights.
            most: how many samples to probe with.
        """
        kinds = self.divided.kinds()
        found = verdict.find(self._model, self.divided, self._step, batch, size, small, most)
        if self.verdict is None or not found.says_nothing:
            return found
        self.divided.settle_as(kinds)  # discard what the inconclusive probe settled
        return None

    def settle(self, found: ProbeFinding) -> Promise:
        """Adopt the verdict that follows from a finding, and return it."""
        judged = verdict.judge(self._promise, found, self._choice)
        self.rounding = found.difference if judged.kind == EXACT else 0.0
        if self.verdict is not None and judged.kind != EXACT:
            judged = replace(judged, reason=f"{judged.reason}; found after {self._steps} divided steps")
        self.verdict = judged
        return judged
