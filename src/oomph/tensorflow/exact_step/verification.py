"""Verification: runs the first steps of a fit twice from the same state, with plain Keras and with the guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.tensorflow.exact_step.out_of_memory import Failed, attempt
from oomph.tensorflow.graph.write_set import Slot

OUT_OF_MEMORY = "plain Keras ran out of memory"


@dataclass(frozen=True)
class Verified:
    """The result of the comparison so far."""

    steps: int = 0
    weights: float = 0.0
    """The largest absolute difference of any weight, slot or other variable of the step."""
    logs: float = 0.0
    """The largest absolute difference of a returned value."""
    stopped: str = ""
    """Why fewer steps were compared than requested."""


class Verification:
    """Compares a number of steps. Training continues from the guard's state.

    Args:
        steps: how many to compare.
        plain: Keras' own function, which takes an iterator.
    """

    def __init__(self, steps: int, plain: Callable[[Any], Any]) -> None:
        self._left, self._plain = steps, plain
        self.result = Verified()

    @property
    def pending(self) -> bool:
        """Whether there is another step to compare."""
        return self._left > 0

    def step(self, batch: Any, slots: list[Slot], guarded: Callable[[], Any]) -> Any:
        """Run one step both ways. Returns what the guarded step returns.

        Args:
            slots: every variable that the step writes. Their values are kept in host memory meanwhile.
        """
        self._left -= 1
        before = _values(slots)
        outcome = attempt(partial(self._plain, iter([batch])))
        theirs = _values(slots)
        for slot, value in zip(slots, before, strict=True):
            slot.assign(tf.constant(value, slot.dtype))
        logs = guarded()
        if isinstance(outcome, Failed):
            self._left = 0
            self.result = Verified(self.result.steps, self.result.weights, self.result.logs, OUT_OF_MEMORY)
            return logs
        known, ours = self.result, _values(slots)
        weights = max([known.weights, *map(_difference, ours, theirs)])
        leaves = zip(tf.nest.flatten(logs), tf.nest.flatten(outcome), strict=True)
        returned = max([known.logs, *(_difference(np.asarray(a), np.asarray(b)) for a, b in leaves)])
        self.result = Verified(known.steps + 1, weights, returned)
        return logs


def _values(slots: list[Slot]) -> list[Any]:
    return [slot.read().numpy() for slot in slots]


def _difference(one: Any, other: Any) -> float:
    """The largest absolute difference; NaN if only one of them is NaN."""
    if not np.issubdtype(np.asarray(one).dtype, np.number):
        return float(not np.array_equal(one, other))
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return float(np.max(np.where(same, 0.0, np.abs(a - b)), initial=0.0))
