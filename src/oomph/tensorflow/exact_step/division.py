"""Division: how the batches of one layout are divided, and what their micro-batches are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from oomph.tensorflow.exact_step import verdict
from oomph.tensorflow.exact_step.probe import Finding
from oomph.tensorflow.graph.write_set import SmallState
from oomph.tensorflow.micro_batch.exactness import EXACT, TO_BE_PROBED, Promise
from oomph.tensorflow.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.tensorflow.micro_batch.micro_batch_step import MicroBatchStep


class Division:
    """One step of a model for batches of one layout (`batches.layout_of`), and the verdict on dividing them.

    A batch with sample weights and one without are two steps: other operations run, and other weights may have
    gradients. What a probe has found of the one says nothing of the other.

    Args:
        model: a compiled Keras model.
        step: its `train_step`, or its `test_step`.
        commits: the variable that counts commits; None for a step that trains nothing.
        promise: what may be said of micro-batches before anything is traced.
        choice: what the user accepts where micro-batches change the result.
        combine: how numbers that the step returns add up over parts, "mean" or "sum"; None: found by the probe.
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
        """What micro-batches are worth; None until a probe has said it."""
        self.rounding = 0.0
        """The relative difference between a whole batch and its parts that the probe has found."""
        self._steps, self._next_probe = 0, 2

    def is_time_to_probe_again(self) -> bool:
        """After 2, 5, 11, 23 ... divided steps, of a step that only a probe knows: rare samples couple rarely.

        Counts the divided steps: it is to be asked once for each of them.
        """
        if self._promise.kind != TO_BE_PROBED or self.verdict is None or self.verdict.kind != EXACT:
            return False
        self._steps += 1
        if self._steps < self._next_probe:
            return False
        self._next_probe = 2 * self._next_probe + 1
        return True

    def probe(self, batch: Any, size: int, small: SmallState, most: int) -> Finding | None:
        """What a probe with samples of this batch finds; None where it shows nothing and an earlier one has.

        Args:
            size: its samples, of the replica that has most of them.
            small: the state that the step writes besides weights.
            most: samples to probe with.
        """
        kinds = self.divided.kinds()
        found = verdict.find(self._model, self.divided, self._step, batch, size, small, most)
        if self.verdict is None or not found.says_nothing:
            return found
        self.divided.settle_as(kinds)  # what the unfinished probe has settled is not to be relied upon
        return None

    def settle(self, found: Finding) -> Promise:
        """Take the verdict that follows from a finding; returns it."""
        judged = verdict.judge(self._promise, found, self._choice)
        self.rounding = found.difference if judged.kind == EXACT else 0.0
        if self.verdict is not None and judged.kind != EXACT:
            judged = replace(judged, reason=f"{judged.reason}; found after {self._steps} divided steps")
        self.verdict = judged
        return judged
