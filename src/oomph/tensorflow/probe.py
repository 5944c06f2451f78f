"""Probe: does the step on two parts of a few samples give what it gives on those samples together?

Everything that a recovery relies on is put to the test, on samples of the batch that is to be divided: the gradients,
the state that the step moves, and the metrics. The step is not applied, and the state is set back. The names of
layers have no say in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.tensorflow import batches
from oomph.tensorflow.divided import DividedStep
from oomph.tensorflow.written import SmallState

SAMPLES = 16
_TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}
"""Relative difference that is still rounding, by the coarsest type that the model computes in."""


@dataclass(frozen=True)
class Finding:
    """What a probe has found. Differences are relative: the norm of the difference over the norm of the whole."""

    samples: int
    """How many were probed; 0 when the batch has too few."""
    gradients: float = 0.0
    state: float = 0.0
    worst: str = ""
    """The variable whose state differs most."""
    tolerance: float = 0.0
    conclusive: bool = True
    """False when the gradients are zero or not finite: then equality says nothing."""
    obstacle: str = ""
    """Why the step can not be taken in parts at all."""
    failure: str = ""
    """What the step says when it is given a few samples, if it fails then."""
    normalises: bool = False
    """Whether BatchNormalization layers were set aside for the probe."""
    hidden_draws: bool = False
    """Whether the step draws random numbers from a state that can not be set back."""

    def facts(self) -> dict[str, Any]:
        """For the journal."""
        return {name: getattr(self, name) for name in ("samples", "gradients", "state", "worst", "tolerance")}

    @property
    def equal(self) -> bool:
        """Whether the parts stand for the whole, within rounding."""
        return max(self.gradients, self.state) <= self.tolerance


class Probe:
    """Runs a divided step on a few samples as a whole and in two unequal parts.

    Args:
        divided: the step to be put to the test. The kind of its loss terms (mean or sum) is settled on the way.
        policy: the name of the type that the model computes in.
    """

    def __init__(self, divided: DividedStep, policy: str) -> None:
        self._divided = divided
        self._tolerance = next((t for name, t in reversed(_TOLERANCES.items()) if name in policy), 1e-3)

    def run(self, batch: Any, size: int, small: SmallState, names: dict[int, str]) -> Finding:
        """Probe with samples of this batch; raises what the step raises, with the state set back.

        Args:
            names: by the identity of a state variable's handle, what to call it.
        """
        samples = min(SAMPLES, size)
        if samples < 2:
            return Finding(0, conclusive=False)
        few = batches.sample_of(batch, samples)
        first = (2 * samples + 2) // 3 if samples > 2 else 1
        before = small.snapshot()
        try:
            self._settle(few, samples, first, small, before)
            whole = self._taken(few, samples, [samples], small, before)
            parts = self._taken(few, samples, [first, samples - first], small, before)
        finally:
            small.restore(before)
        state, worst = self._state_difference(whole[1], parts[1], before, small, names)
        norm = _norm(whole[0])
        conclusive = bool(0 < norm < np.inf) or not self._divided.trains
        return Finding(samples, _difference(whole[0], parts[0]), state, worst, self._tolerance, conclusive)

    def _taken(self, few: Any, size: int, parts: list[int], small: SmallState, before: Any) -> tuple[Any, Any]:
        """Gradients and state after the samples in parts of these sizes."""
        small.restore(before)
        divided, start = self._divided, 0
        divided.start(few, size, small, max(parts))
        for part in parts:
            divided.add(few, start, part)
            start += part
        divided.finish(size_is_known=False)
        gradients = [_array(g) for g in divided.gradients() if g is not None]
        return gradients, [_array(value) for value in small.snapshot()]

    def _settle(self, few: Any, size: int, first: int, small: SmallState, before: Any) -> None:
        """Find for each plain number that the step computes whether it is a mean over samples or a sum.

        The terms of the loss come first: what they are decides on the numbers that are computed from them.
        """
        cuts = ((0, size), (0, first), (first, size - first))
        self._divided.start(few, size, small, size)
        self._divided.settle([False] * len(self._divided.summed), [], [])
        outputs = [self._outputs(few, cut, small, before) for cut in cuts]
        terms = _are_sums([o.terms for o in outputs], first / size)
        if any(terms):
            self._divided.settle(terms, [], [])
            outputs = [self._outputs(few, cut, small, before) for cut in cuts]
        values, logs = (_are_sums([getattr(o, field) for o in outputs], first / size) for field in ("values", "logs"))
        self._divided.settle(terms, values, logs)

    def _outputs(self, few: Any, cut: tuple[int, int], small: SmallState, before: Any) -> Any:
        small.restore(before)
        return self._divided.outputs(few, *cut)

    def _state_difference(
        self, whole: list[Any], parts: list[Any], before: list[Any], small: SmallState, names: dict[int, str]
    ) -> tuple[float, str]:
        worst, name = 0.0, ""
        for slot, one, other, old in zip(small.slots, whole, parts, before, strict=True):
            moved = _norm([one - _array(old)]) or 1.0
            difference = _norm([one - other]) / max(moved, 1e-3 * _norm([one]))
            if difference > worst:
                worst, name = difference, names.get(id(slot.handle), "a variable of its own")
        return worst, name


def _are_sums(numbers: list[list[Any]], share: float) -> list[bool]:
    """For each number, given for the whole and for two parts: whether the parts add up to it rather than average."""
    found = []
    for whole, one, other in zip(*numbers, strict=True):
        if tf.TensorShape(getattr(whole, "shape", ())).rank != 0 or not getattr(whole, "dtype", tf.bool).is_floating:
            found.append(False)
            continue
        w, a, b = float(whole), float(one), float(other)
        found.append(abs(a + b - w) < abs(share * a + (1 - share) * b - w))
    return found


def _difference(whole: list[Any], parts: list[Any]) -> float:
    """The largest relative difference of any gradient; very small gradients are measured against all of them."""
    floor = 1e-3 * _norm(whole) or 1.0
    ratios = [_norm([a - b]) / max(_norm([a]), floor) for a, b in zip(whole, parts, strict=True)]
    return max(ratios, default=0.0)


def _norm(arrays: list[Any]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(a))) for a in arrays)))


def _array(value: Any) -> Any:
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    array = (
        tf.cast(value, tf.float64) if value.dtype.is_floating or value.dtype.is_integer else tf.zeros([], tf.float64)
    )
    return array.numpy()
