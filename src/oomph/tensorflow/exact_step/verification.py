"""Verification: runs the first steps of a fit twice from the same state, with plain Keras and with the guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.tensorflow.exact_step import rounding
from oomph.tensorflow.exact_step.out_of_memory import Failed, attempt
from oomph.tensorflow.graph.write_set import Slot, handles_of
from oomph.tensorflow.state.optimizers import optimizers_of

OUT_OF_MEMORY = "plain Keras ran out of memory"


@dataclass(frozen=True)
class Verified:
    """The result of the comparison so far."""

    steps: int = 0
    weights: float = 0.0
    """The largest absolute difference of any weight, slot or other variable of the step."""
    logs: float = 0.0
    """The largest absolute difference of a returned value."""
    of_change: float = 0.0
    """The norm of the largest difference of a variable, relative to that of what plain Keras' step changed in it."""
    variable: str = ""
    """The variable with that difference; empty if no variable differs."""
    type: str = "float32"
    """The least precise type that the model computes in."""
    rounding: float = 0.0
    """The largest relative difference that counts as rounding in that type."""
    stopped: str = ""
    """Why fewer steps were compared than requested."""


class Verification:
    """Compares a number of steps. Training continues from the guard's state.

    Args:
        steps: how many to compare.
        plain: Keras' own function, which takes an iterator.
        model: a compiled Keras model.
    """

    def __init__(self, steps: int, plain: Callable[[Any], Any], model: Any) -> None:
        self._left, self._plain, self._model = steps, plain, model
        kind = rounding.coarsest_type(model)
        self.result = Verified(type=kind, rounding=rounding.largest(kind))

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
            self.result = replace(self.result, stopped=OUT_OF_MEMORY)
            return logs
        ours, known = _values(slots), self.result
        leaves = zip(tf.nest.flatten(logs), tf.nest.flatten(outcome), strict=True)
        self.result = replace(
            self._with_changes(slots, before, theirs, ours),
            steps=known.steps + 1,
            weights=max([known.weights, *map(_difference, ours, theirs)]),
            logs=max([known.logs, *(_difference(np.asarray(a), np.asarray(b)) for a, b in leaves)]),
        )
        return logs

    def _with_changes(self, slots: list[Slot], before: list[Any], theirs: list[Any], ours: list[Any]) -> Verified:
        result = self.result
        for slot, old, their, our in zip(slots, before, theirs, ours, strict=True):
            share = _share_of_change(old, their, our)
            if share > result.of_change:
                result = replace(result, of_change=share, variable=self._name(slot))
        return result

    def _name(self, slot: Slot) -> str:
        own = [v for optimizer in optimizers_of(self._model) for v in optimizer.variables]
        named = (v for v in [*self._model.variables, *own] if id(slot.handle) in handles_of([v]))
        return next((str(getattr(v, "path", v.name)) for v in named), "a variable of the step")


def _values(slots: list[Slot]) -> list[Any]:
    return [slot.read().numpy() for slot in slots]


def _difference(one: Any, other: Any) -> float:
    """The largest absolute difference; infinite if only one of them is NaN or infinite somewhere."""
    if not np.issubdtype(np.asarray(one).dtype, np.number):
        return float(not np.array_equal(one, other))
    return float(np.max(np.abs(_apart(one, other)), initial=0.0))


def _share_of_change(before: Any, theirs: Any, ours: Any) -> float:
    """The norm of the difference, relative to that of the change; to a thousandth of the value if it changed less."""
    if not np.issubdtype(np.asarray(theirs).dtype, np.number):
        return float(not np.array_equal(theirs, ours))
    apart = float(np.linalg.norm(_apart(ours, theirs)))
    if apart in (0, float("inf")):
        return apart
    changed, value = (float(np.linalg.norm(_finite(array))) for array in (_apart(theirs, before), theirs))
    return apart / (max(changed, 1e-3 * value) or apart)


def _apart(one: Any, other: Any) -> Any:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, a - b)
    return np.where(np.isnan(apart), np.inf, apart)


def _finite(array: Any) -> Any:
    exact = np.asarray(array, np.float64)
    return exact[np.isfinite(exact)]
