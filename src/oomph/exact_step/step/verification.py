"""Verification: runs the first steps of a fit twice from the same state, with plain Keras and with the guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.exact_step.step.probe import coarsest_type, largest_rounding
from oomph.keras_bridge.graph import Slot, handles_of
from oomph.keras_bridge.models import optimizer_variables_of
from oomph.keras_bridge.workers import spans_workers

OUT_OF_MEMORY = "plain Keras ran out of memory"


@dataclass(frozen=True)
class Verified:
    """The result of the comparison so far."""

    steps: int = 0
    weights: float = 0.0
    """The largest absolute difference in any weight, slot or other variable of the step."""
    logs: float = 0.0
    """The largest absolute difference in a returned value."""
    of_change: float = 0.0
    """The largest norm of a variable's difference, relative to the norm of the change that plain Keras made to it."""
    variable: str = ""
    """The path of the variable that `of_change` belongs to; empty if no variable differs."""
    type: str = "float32"
    """The least precise type that the model computes in."""
    of_log: float = 0.0
    """The largest norm of a returned value's difference, relative to the norm of the value."""
    rounding: float = 0.0
    """The largest relative difference that counts as rounding in the type that the model computes in."""
    stopped: str = ""
    """The reason that fewer steps than requested were compared; empty if there is none."""

    @property
    def same(self) -> bool:
        """True if all variables and returned values are identical."""
        return self.weights == self.logs == 0

    @property
    def only_rounding(self) -> bool:
        """True if all variables and returned values agree to within rounding."""
        return max(self.of_change, self.of_log) <= self.rounding


class Verification:
    """Compares a number of steps. Training continues from the guard's state.

    Args:
        steps: how many steps to compare.
        plain: Keras' own function, which expects an iterator.
        model: a compiled Keras model.
    """

    def __init__(self, steps: int, plain: Callable[[Any], Any], model: Any) -> None:
        self._left, self._plain, self._model = steps, plain, model
        kind = coarsest_type(model)
        self.result = Verified(type=kind, rounding=largest_rounding(kind))

    @property
    def pending(self) -> bool:
        """True if there are more steps to compare."""
        return self._left > 0

    def step(self, batch: Any, slots: list[Slot], guarded: Callable[[], Any]) -> Any:
        """Run one step both ways, and return the result of the guarded step.

        Args:
            slots: every variable that the step writes. Their values are kept in host memory in the meantime.
        """
        self._left -= 1
        before = _values(slots)
        outcome = attempt(partial(self._plain, iter([batch])))
        if isinstance(outcome, Failed) and spans_workers(self._model.distribute_strategy):
            raise outcome.error  # the other workers wait in this step, which plain Keras cannot repeat
        theirs = _values(slots)
        for slot, value in zip(slots, before, strict=True):
            slot.assign(tf.constant(value, slot.dtype))
        logs = guarded()
        if isinstance(outcome, Failed):
            self._left = 0
            self.result = replace(self.result, stopped=OUT_OF_MEMORY)
            return logs
        ours, known = _values(slots), self.result
        returned = list(zip(tf.nest.flatten(outcome), tf.nest.flatten(logs), strict=True))
        self.result = replace(
            self._with_changes(slots, before, theirs, ours),
            steps=known.steps + 1,
            weights=max([known.weights, *map(_difference, ours, theirs)]),
            logs=max([known.logs, *(_difference(*pair) for pair in returned)]),
            of_log=max([known.of_log, *(_share_of_value(*pair) for pair in returned)]),
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
        known = [*self._model.variables, *optimizer_variables_of(self._model)]
        named = (v for v in known if id(slot.handle) in handles_of([v]))
        return next((str(getattr(v, "path", v.name)) for v in named), "a variable of the step")


def _values(slots: list[Slot]) -> list[Any]:
    return [slot.read().numpy() for slot in slots]


def _difference(one: Any, other: Any) -> float:
    """Return the largest absolute difference of two values; infinite if an element is finite in only one of them."""
    return float(np.max(np.abs(_apart(one, other)), initial=0.0))


def _share(apart: float, of: float) -> float:
    """Return the difference relative to a norm, or 1 if the norm is zero."""
    return apart if apart in (0, float("inf")) else apart / (of or apart)


def _share_of_change(before: Any, theirs: Any, ours: Any) -> float:
    """Return the norm of the difference relative to the change, or to a thousandth of the value if that is larger."""
    changed, value = _norm(_apart(theirs, before)), _norm(_exact(theirs))
    return _share(float(np.linalg.norm(_apart(ours, theirs))), max(changed, 1e-3 * value))


def _share_of_value(theirs: Any, ours: Any) -> float:
    return _share(float(np.linalg.norm(_apart(ours, theirs))), _norm(_exact(theirs)))


def _apart(one: Any, other: Any) -> Any:
    """Return the difference of each element, or 1 for text that differs."""
    a, b = _exact(one), _exact(other)
    if a.dtype != np.float64:
        return np.asarray(a != b, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, a - b)
    return np.where(np.isnan(apart), np.inf, apart)


def _exact(value: Any) -> Any:
    """Convert a value to float64, which is exact even for bfloat16, a type that NumPy does not treat as numeric."""
    array = np.asarray(value)
    return array if array.dtype.kind in "OSU" else array.astype(np.float64)


def _norm(array: Any) -> float:
    return float(np.linalg.norm(array[np.isfinite(array)])) if array.dtype == np.float64 else 0.0
