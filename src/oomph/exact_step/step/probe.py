"""Probe: tests whether a few samples give the same result in two micro-batches as in one batch.

The probe uses samples of the batch to be split, and tests everything that a recovery relies on: the gradients,
the state that the step changes, and the metrics. It does not apply the step, restores the state, and ignores the names
of layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.graph import SmallState
from oomph.keras_bridge.names.keras3 import KERAS

_RELATIVE = {"bfloat16": 0.1, "float16": 0.05, "float32": 1e-4, "float64": 1e-10}
"""The largest relative difference of a norm that counts as rounding; the least precise type comes first."""


def coarsest_type(model: Any) -> str:
    """Return the name of the least precise type that any layer computes in."""
    types = {str(getattr(layer, "compute_dtype", "float32")) for layer in KERAS.flatten_layers.call(model)}
    return next((name for name in _RELATIVE if name in types), "float32")


def largest_rounding(compute: str) -> float:
    """Return the largest relative difference that counts as rounding in this type, such as "float16"."""
    return _RELATIVE.get(compute, _RELATIVE["float32"])


_SCALES = (0.75, 0.9921875)
"""Two factors for the loss: neither is a power of two, so each changes the rounding; both are exact in bfloat16."""
_MOST_ROUNDING = 10.0
"""The largest measured rounding, as a multiple of the tolerance: anything above does not count as rounding."""
_SPREAD = 3.0
"""The largest allowed difference, as a multiple of the measured rounding: both are draws from one distribution."""

SAMPLES = 64
FEW_SAMPLES = 4
"""The number of samples for a probe if the usual number does not fit."""
_MOST = 256
_NOT_FINITE = "the result of the micro-batches is not finite"


@dataclass(frozen=True)
class ProbeFinding:
    """The result of a probe. Differences are relative: their norm divided by the norm of the whole."""

    samples: int
    """The number of samples probed, or 0 if the batch has too few."""
    gradients: float = 0.0
    state: float = 0.0
    worst: str = ""
    """The name of the state variable with the largest difference."""
    tolerance: float = 0.0
    rounding: float = 0.0
    """The gradient difference that measured rounding explains; 0.0 if no explanation was needed or none was found."""
    returned: float = 0.0
    """The largest relative difference of a returned number, treated as a mean or as a sum over samples."""
    conclusive: bool = True
    """False if the gradients are zero or not finite, since equality then proves nothing."""
    obstacle: str = ""
    """The reason that the step cannot run on micro-batches at all; empty if it can."""
    failure: str = ""
    """The error that the step raised on a few samples; empty if it did not fail."""
    normalises: bool = False
    """True if BatchNormalization layers used their moving statistics during the probe."""
    hidden_draws: bool = False
    """True if the step draws random numbers from a state that cannot be restored."""
    no_memory: bool = False
    """True if there was no memory for even a few samples."""
    incomparable: str = ""
    """The reason that gradients could not be compared, if any; their difference is then infinite."""

    @property
    def difference(self) -> float:
        """The largest of the differences, or 0.0 if the probe is inconclusive."""
        return max(self.gradients, self.state, self.returned) if self.conclusive else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the fields for the journal, with None in place of an infinite difference."""
        found = {name: getattr(self, name) for name in ("samples", "gradients", "state", "worst", "tolerance")}
        return {name: None if value == float("inf") else value for name, value in found.items()}

    def __str__(self) -> str:
        decisive = max(self.gradients, self.state) if self.has_equal_gradients else self.gradients
        shown = f"relative difference {decisive:.1g}" if np.isfinite(decisive) else self.incomparable or _NOT_FINITE
        without = " without BatchNormalization" if self.normalises else ""
        rounding = ", no more than measured rounding" if self.tolerance < self.gradients <= self.rounding else ""
        return f"probed with {self.samples} samples{without}, {shown}{rounding}"

    @property
    def says_nothing(self) -> bool:
        """True if there was no memory for a probe, or the probe was inconclusive."""
        return not (self.conclusive or self.obstacle or self.failure or self.hidden_draws)

    @property
    def why_nothing(self) -> str:
        """The reason why the probe was inconclusive."""
        return "there was not enough memory for a probe" if self.no_memory else "a probe was inconclusive"

    @property
    def has_equal_gradients(self) -> bool:
        """True if the micro-batches' gradients equal those of the whole batch, within rounding."""
        return self.gradients <= max(self.tolerance, self.rounding)

    @property
    def equal(self) -> bool:
        """True if the micro-batches' gradients and state equal those of the whole batch, within rounding."""
        return self.has_equal_gradients and self.state <= self.tolerance


class Probe:
    """Runs a divided step on a few samples, both in one batch and in two unequal micro-batches.

    Args:
        divided: the step to test. The probe also settles whether each of its loss terms is a mean or a sum.
        policy: the name of the model's compute type.
    """

    def __init__(self, divided: AccumulatedStep, policy: str) -> None:
        self._divided = divided
        self._returned = 0.0
        self._settled = True
        """True if every loss term was recognised as a mean or a sum."""
        self._tolerance = largest_rounding(policy)

    def run(self, batch: Any, size: int, small: SmallState, names: dict[int, str], most: int = SAMPLES) -> ProbeFinding:
        """Probe with samples of this batch. Propagates any error from the step, and always restores the state.

        Args:
            names: names of state variables, keyed by the ids of their handles.
            most: how many samples to use.
        """
        replicas = self._divided.micro_step.replicas
        samples = max(most, min(size // 128, _MOST)) if most == SAMPLES else most
        samples = min([samples, *(replicas.sizes(batch) or [])])
        if samples < 2:
            return ProbeFinding(0, conclusive=False)
        few = replicas.together([batches.sample_of(own, samples) for own in replicas.local(batch)])
        first = (2 * samples + 2) // 3 if samples > 2 else 1
        before = small.snapshot()
        try:
            self._settle(few, samples, first, small, before)
            whole = self._taken(few, samples, [samples], small, before)
            parts = self._taken(few, samples, [first, samples - first], small, before)
            differences, incomparable = _differences(whole[0], parts[0])
            rounding = self._rounding(
                differences, whole[0], lambda scale: self._taken(few, samples, [samples], small, before, scale)[0]
            )
        finally:
            small.restore(before)
        state, worst = self._state_difference(whole[1], parts[1], before, small, names)
        norm = _norm(whole[0])
        return ProbeFinding(
            samples,
            max(differences, default=0.0),
            state,
            worst,
            self._tolerance,
            rounding,
            self._returned,
            conclusive=self._settled and (bool(0 < norm < np.inf) or not self._divided.trains),
            incomparable=incomparable,
        )

    def _taken(
        self, few: Any, size: int, parts: list[int], small: SmallState, before: Any, scale: float = 1.0
    ) -> tuple[Any, Any]:
        """Return the gradients and the state after running the samples in micro-batches of these sizes.

        The loss is multiplied by `scale`, and the gradients are then divided by it.
        """
        small.restore(before)
        divided, start = self._divided, 0
        divided.start(few, size, small)
        for part in parts:
            divided.add(start, part, scale)
            start += part
        divided.finish(size_is_known=False)
        gradients = [array for g in divided.gradients() if g is not None for array in _arrays_of(g, scale)]
        return gradients, [_array(value) for value in small.snapshot()]

    def _rounding(self, differences: list[float], whole: list[Any], scaled: Callable[[float], list[Any]]) -> float:
        """Return the largest difference if measured rounding explains every one above the tolerance, else 0.0.

        If sums over many pixels or time steps nearly cancel, their rounding exceeds the tolerance. Gradients are linear
        in the loss: if the loss is scaled, they change by rounding alone, however the loss couples samples. If they are
        not linear (a term was not scaled, or a gradient is clipped), the first scale moves them 32 times as far as the
        second. Bounding the first measurement and using the smaller of the two keeps such a change below the tolerance.
        """
        worst, most = max(differences, default=0.0), _MOST_ROUNDING * self._tolerance
        if not self._tolerance < worst <= _SPREAD * most:
            return 0.0
        far, near = (_differences(whole, scaled(scale))[0] for scale in _SCALES)
        measured = [min(one, other) if one <= most else 0.0 for one, other in zip(far, near, strict=True)]
        allowed = [max(self._tolerance, _SPREAD * rounding) for rounding in measured]
        return worst if all(np.less_equal(differences, allowed)) else 0.0

    def _settle(self, few: Any, size: int, first: int, small: SmallState, before: Any) -> None:
        """Find out whether each plain number that the step computes is a mean or a sum over samples.

        The loss terms come first, since other numbers are computed from them.
        """
        cuts = ((0, size), (0, first), (first, size - first))
        self._divided.start(few, size, small)
        self._divided.settle([False] * len(self._divided.summed), [], [])
        outputs = [self._outputs(cut, small, before) for cut in cuts]
        terms = _are_sums([o.terms for o in outputs], first / size)
        if any(terms):
            self._divided.settle([bool(is_sum) for is_sum in terms], [], [])
            outputs = [self._outputs(cut, small, before) for cut in cuts]
        values, logs = (_are_sums([getattr(o, field) for o in outputs], first / size) for field in ("values", "logs"))
        self._divided.settle(*([bool(is_sum) for is_sum in kinds] for kinds in (terms, values, logs)))
        self._settled = None not in terms
        own = [
            log
            for log, source in zip(range(len(logs)), self._divided.micro_step.sources, strict=True)
            if source is None
        ]
        numbers = [[o.logs[log] for log in own] for o in outputs]
        self._returned = _neither_mean_nor_sum(numbers, first / size)

    def _outputs(self, cut: tuple[int, int], small: SmallState, before: Any) -> Any:
        """Return the first replica's outputs for these samples."""
        small.restore(before)
        return self._divided.outputs(*cut)[0]

    def _state_difference(
        self, whole: list[Any], parts: list[Any], before: list[Any], small: SmallState, names: dict[int, str]
    ) -> tuple[float, str]:
        worst, name = 0.0, ""
        for slot, one, other, old in zip(small.slots, whole, parts, before, strict=True):
            moved = _norm([one - _array(old)]) or 1.0
            difference = _finite(_norm([one - other]) / max(moved, 1e-3 * _norm([one])))
            if np.array_equal(one, other, equal_nan=True):
                continue
            if difference > worst:
                worst, name = difference, names.get(id(slot.handle), "a variable of its own")
        return worst, name


def _are_sums(numbers: list[list[Any]], share: float) -> list[bool | None]:
    """Return, for each number, True if the two micro-batches add up to the whole, False if the whole is their mean.

    None means that all three are zero, so that the kind is unknown.
    """
    found: list[bool | None] = []
    for whole, one, other in zip(*numbers, strict=True):
        if not _is_number(whole):
            found.append(False)
            continue
        w, a, b = float(whole), float(one), float(other)
        found.append(None if a == b == w == 0 else abs(a + b - w) < abs(share * a + (1 - share) * b - w))
    return found


def _neither_mean_nor_sum(numbers: list[list[Any]], share: float) -> float:
    """Return the largest relative distance of any number from both the mean and the sum over the micro-batches."""
    worst = 0.0
    for whole, one, other in zip(*numbers, strict=True):
        if _is_number(whole):
            w, a, b = float(whole), float(one), float(other)
            off = min(abs(a + b - w), abs(share * a + (1 - share) * b - w))
            worst = max(worst, _finite(off / max(abs(w), abs(a), abs(b), 1e-30)) if off else 0.0)
    return worst


def _is_number(value: Any) -> bool:
    rank = tf.TensorShape(getattr(value, "shape", ())).rank
    return rank == 0 and bool(getattr(getattr(value, "dtype", None), "is_floating", False))


def _arrays_of(gradient: Any, scale: float = 1.0) -> list[Any]:
    """Convert a gradient, divided by `scale`, to arrays; a sparse one becomes its sorted indices and summed rows."""
    if not isinstance(gradient, tf.IndexedSlices):
        return [_array(gradient) / scale]
    indices, slices = _array(gradient.indices), _array(gradient.values) / scale
    rows, places = np.unique(indices, return_inverse=True)
    sums = np.zeros((len(rows), *slices.shape[1:]))
    np.add.at(sums, places.reshape(-1), slices)
    return [np.sort(indices), sums]


def _differences(whole: list[Any], parts: list[Any]) -> tuple[list[float], str]:
    """Return the relative difference of each gradient. Very small gradients are measured against the norm of all.

    If the gradients cannot be compared, returns infinity and the reason.
    """
    floor = 1e-3 * _norm(whole) or 1.0
    if [a.shape for a in whole] != [b.shape for b in parts]:
        return [float("inf")], "the micro-batches look up a different number of table rows from the whole batch"
    ratios = [_finite(_norm([a - b]) / max(_norm([a]), floor)) for a, b in zip(whole, parts, strict=True)]
    return ratios, "" if np.isfinite(ratios).all() else _NOT_FINITE


def _finite(difference: float) -> float:
    """Return the difference, or infinity if it is NaN."""
    return difference if np.isfinite(difference) else float("inf")


def _norm(arrays: list[Any]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(a))) for a in arrays)))


def _array(value: Any) -> Any:
    """Copy a tensor to the host as float64, since the device has no memory to spare; non-numeric types become zero."""
    is_number = value.dtype.is_floating or value.dtype.is_integer
    return np.asarray(value).astype("float64") if is_number else np.zeros(())
