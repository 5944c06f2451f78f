"""Recheck: computes the gradients of some steps twice. A device that gives two different answers is broken.

Silent data corruption raises no error: P. H. Hochschild et al., "Cores that don't count", HotOS 2021; H. D. Dixit et
al., "Silent Data Corruptions at Scale", 2021. Both computations start from the same weights, small state and random
numbers, so only the order of summation may differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import UnsupportedError
from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchStep
from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.exact_step.step.probe import coarsest_type, largest_rounding
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.graph import SmallState, components


class Recomputation:
    """Recomputes the gradients of a model's step.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step`.
    """

    def __init__(self, model: Any, step: Callable[[Any], Any]) -> None:
        self.micro_step = MicroBatchStep(model, step)

    def with_gradients(
        self, batch: Any, samples: int, small: SmallState, use: Callable[[Callable[[], Any]], None]
    ) -> None:
        """Call `use` with a function that computes the gradients of a batch. Weights and small state do not change.

        Each call to that function starts from the same small state, and therefore from the same random numbers. It
        returns Failed if memory runs out. Raises UnsupportedError if the step cannot be computed twice.

        Args:
            samples: how many samples to use, from the first; they must fit into memory at once.
            small: the state that the step writes, apart from weights.
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
        """Return the largest relative difference between repeated computations of a batch's gradients, or 0.0 if equal.

        Raises UnsupportedError if the step cannot be computed twice.
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
        """Return the gradients of every variable, replica by replica."""
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
    """Copy a gradient to the host; a sparse one becomes its values followed by its indices."""
    if gradient is None:
        return np.zeros(0)
    leaves = [np.asarray(leaf).reshape(-1) for leaf in tf.nest.flatten(gradient, expand_composites=True)]
    return leaves[0] if len(leaves) == 1 else np.concatenate([leaf.astype(np.float64) for leaf in leaves])


_OF_ALL = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 1e-3, "float16": 1e-3}
"""The fraction of the norm of all gradients to add to the rounding limit, keyed by the coarsest compute type.

It allows for gradients that are zero except for rounding, such as a bias gradient before BatchNormalization.
"""


@dataclass(frozen=True)
class Inconsistent:
    """Two computations of the same gradients that differ by more than rounding."""

    device: str
    variable: str
    """The path of the variable whose gradient differs the most."""
    difference: float
    """The norm of the difference, relative to the gradient's norm."""
    third: str
    """The outcome of a third computation: whether it agrees with "the first", "the second", "neither" or "both"."""


class Recheck:
    """Computes the gradients of every `every`th step twice and compares them.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step`.
        every: how many steps apart the comparisons are.
        found: called with each difference.
        clean: called after each comparison that finds no difference.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        every: int,
        found: Callable[[Inconsistent], None],
        clean: Callable[[], None],
    ) -> None:
        self._model, self._every, self._found, self._clean = model, every, found, clean
        self._recomputation = Recomputation(model, step)
        self._micro_step = self._recomputation.micro_step
        self._steps = 0
        self.done = 0
        """The number of comparisons made so far."""
        self.seconds = 0.0
        """The total time, in seconds, spent on comparisons."""
        self.impossible = ""
        """The reason that comparisons are impossible; empty if they are possible."""

    def is_due(self, steps: int = 1) -> bool:
        """Count the steps of one execution, and return True if the first of them should be compared."""
        before, self._steps = self._steps, self._steps + steps
        return not self.impossible and self._steps // self._every > before // self._every

    def check(self, batch: Any, samples: int, small: SmallState) -> None:
        """Compute the gradients of a batch's first samples twice. Weights and small state do not change.

        Args:
            samples: the number of samples that fit into memory at once.
            small: the state that the step writes, apart from weights.
        """
        started = time.monotonic()

        def compare(computed: Callable[[], Any]) -> None:
            first, second = computed(), computed()
            if not (isinstance(first, Failed) or isinstance(second, Failed)):
                self._compare(first, second, computed)  # otherwise out of memory: a later step is compared instead

        try:
            self._recomputation.with_gradients(batch, samples, small, compare)
        except UnsupportedError as error:
            self.impossible = str(error)
        finally:
            self.seconds += time.monotonic() - started

    def _compare(self, first: list[Any], second: list[Any], computed: Callable[[], Any]) -> None:
        self.done += 1
        worst, difference = self._worst(first, second)
        if worst is None:
            self._clean()
            return
        third = computed()
        agrees = [not isinstance(third, Failed) and self._worst(one, third)[0] is None for one in (first, second)]
        words = {(True, True): "both", (True, False): "the first", (False, True): "the second"}
        names = self._names()
        replica, number = divmod(worst, max(1, len(first) // self._micro_step.replicas.count))
        name = names[number] if number < len(names) else f"gradient {number}"
        told = words.get((agrees[0], agrees[1]), "neither")
        self._found(Inconsistent(_device_of(self._model, replica), name, difference, told))

    def _worst(self, first: list[Any], second: list[Any]) -> tuple[int | None, float]:
        """Find the gradient that exceeds rounding the most, or None, and its difference relative to its norm.

        Most devices produce the same bits twice, so that there is nothing to compute.
        """
        numbered = list(enumerate(zip(first, second, strict=True)))
        other_bits = [(number, *pair) for number, pair in numbered if not np.array_equal(*pair)]
        if not other_bits:
            return None, 0.0
        compute = coarsest_type(self._model)
        relative, absolute = largest_rounding(compute), _OF_ALL.get(compute, _OF_ALL["float32"])
        every = np.sqrt(sum(_norm(one) ** 2 for one in first))
        worst, most = None, 0.0
        for number, one, other in other_bits:
            apart = _difference(one, other)
            bound = relative * _norm(one) + absolute * every
            if apart > bound and apart / max(_norm(one), bound, 1e-300) >= most:
                worst, most = number, apart / max(_norm(one), bound, 1e-300)
        return worst, float(most)

    def _names(self) -> list[str]:
        applied = self._micro_step.applied
        return [] if applied is None else [str(v.path) for call in applied.variables for v in call]


def _norm(array: Any) -> float:
    exact = array.astype(np.float64)
    return float(np.linalg.norm(exact[np.isfinite(exact)]))


def _difference(one: Any, other: Any) -> float:
    """Compute the norm of the difference of two gradients; infinite if any element is finite in only one of them."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    apart = np.where(same, 0.0, one - other)
    return float("inf") if not np.isfinite(apart).all() else float(np.linalg.norm(apart))


def _device_of(model: Any, replica: int) -> str:
    """Return the device of a replica's weights under the name that TensorFlow gives it: "GPU:0 (NVIDIA H200)"."""
    weights = [components(v)[replica] for v in model.trainable_variables]
    device = tf.DeviceSpec.from_string(weights[0].device if weights else "")
    gpus = tf.config.list_logical_devices("GPU")
    kind, index = device.device_type or ("GPU" if gpus else "CPU"), device.device_index or 0
    if kind == "CPU" and gpus:
        kind = "GPU"  # small weights may be on the host, but the GPU computes the gradients
    name = _name_of_gpu(index) if kind == "GPU" else ""
    return f"{kind}:{index}" + (f" ({name})" if name else "")


def _name_of_gpu(index: int) -> str:
    try:
        physical = tf.config.list_physical_devices("GPU")[index]
        return str(tf.config.experimental.get_device_details(physical).get("device_name", ""))
    except (IndexError, ValueError, tf.errors.OpError):
        return ""
