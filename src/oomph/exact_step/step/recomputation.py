"""Recomputation: computes the gradients of a step on one batch any number of times, without changing the training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import UnsupportedError
from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchStep
from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.micro_batch_slice import MicroBatchSlice
from oomph.keras_bridge.graph.write_set import SmallState


class Recomputation:
    """Recomputes the gradients of one model's step.

    Args:
        model: a compiled Keras model.
        step: its `train_step`.
    """

    def __init__(self, model: Any, step: Callable[[Any], Any]) -> None:
        self.micro_step = MicroBatchStep(model, step)

    def with_gradients(
        self, batch: Any, samples: int, small: SmallState, use: Callable[[Callable[[], Any]], None]
    ) -> None:
        """Call `use` with a function that computes the gradients of a batch. Weights and small state do not change.

        Each call starts from the same small state, and so from the same random numbers. It returns Failed if memory
        runs out. Raises UnsupportedError if the step cannot be computed twice.

        Args:
            samples: how many of the first samples to use; they fit into memory at once.
            small: the state that the step writes besides weights.
        """
        before, replicas = small.snapshot(), self.micro_step.replicas
        parts = [batches.part_of(own, 0, samples) for own in replicas.local(batch)]

        def computed() -> Any:
            small.restore(before)
            return attempt(partial(self._gradients, parts))

        try:
            self.micro_step.trace(replicas.together(parts))
            if self.micro_step.draws_from_hidden_state:
                raise UnsupportedError("the step draws random numbers from a state that cannot be restored")
            use(computed)
        finally:
            small.restore(before)

    def noise(self, batch: Any, samples: int, small: SmallState) -> float:
        """The largest difference between computations of one batch's gradients, relative to their norm; 0.0 if equal.

        Raises UnsupportedError.
        """
        found = 0.0

        def compare(computed: Callable[[], Any]) -> None:
            nonlocal found
            first = computed()
            for _ in range(_COMPUTATIONS - 1):
                other = computed()
                if isinstance(first, Failed) or isinstance(other, Failed):
                    return
                found = max(found, _apart(first, other))

        self.with_gradients(batch, samples, small, compare)
        return found

    def _gradients(self, parts: list[Any]) -> list[Any]:
        """The gradients of every variable, replica after replica."""
        summed = [0.0] * len(self.micro_step.losses.terms)
        sizes = [batches.size_of(part) or 0 for part in parts]
        pairs = zip(sizes, self.micro_step.divisors_of(parts), strict=True)
        outputs = self.micro_step(
            parts, [MicroBatchSlice.of(0, size, size, divisors, summed) for size, divisors in pairs]
        )
        return [_array(gradient) for own in outputs for call in own.gradients for gradient in call]


_COMPUTATIONS = 4


def _apart(first: list[Any], second: list[Any]) -> float:
    norm = np.sqrt(sum(np.sum(np.square(np.nan_to_num(one.astype(np.float64)))) for one in first))
    between = np.sqrt(
        sum(np.sum(np.square(np.nan_to_num(a.astype(np.float64) - b))) for a, b in zip(first, second, strict=True))
    )
    return float(between / norm) if norm else 0.0


def _array(gradient: Any) -> Any:
    """A gradient on the host; for a sparse one, its values followed by its indices."""
    if gradient is None:
        return np.zeros(0)
    leaves = [np.asarray(leaf).reshape(-1) for leaf in tf.nest.flatten(gradient, expand_composites=True)]
    return leaves[0] if len(leaves) == 1 else np.concatenate([leaf.astype(np.float64) for leaf in leaves])
