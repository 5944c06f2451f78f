"""Predicts a step's peak at any batch size, from sizes that ran on the GPU itself or that XLA compiled. Pure.

Estimates from real steps match the sizes that ran. At other sizes, they follow the simulation or, if XLA hides the
buffers, what is known about the growth of such buffers.

Part of a compiled step's memory is fixed: the variables. The rest grows. At each point of the program, the memory
needed is a fixed amount plus an amount per sample, and the peak is the highest of these lines, so it is convex. Between
two sizes, it lies below the straight line through them. Above the largest size, it lies above the line through the last
two, but below growth in proportion to the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from oomph.planning.breakdown import Held
from oomph.planning.gpu_costs import xla_workspaces
from oomph.planning.plan import Interval, Item, exactly, together
from oomph.planning.prediction import wider_beyond

if TYPE_CHECKING:
    from oomph.planning.xla.compiling import Compiled

_FASTER = 1.02
"""Growth has a quadratic part if it exceeds this multiple of proportional growth."""
_LOOSE = 0.55
"""The fraction of the memory counted by a loose allocator that may suffice (`Peaks.is_loose`).

Seen on the fake GPU of tests/rig: 160 of 276 MiB.
"""
LOWER, UPPER = 0.9, 1.25
"""The bounds as multiples of a measured or corrected peak without XLA: memory layout varies between processes."""
LOWER_XLA, UPPER_XLA = 0.75, 1.25
"""The bounds as multiples of the peak of a compiled step that ran.

The first step is decisive, because XLA tries out several algorithms at a time in it. On the fake GPU of tests/rig, a
fit used 0.84 to 0.88 of the memory that the same size used in a probe.
"""

Course = Callable[[int], Interval]
"""A function from the batch size to the peak, with bounds wide enough for any process's memory layout."""
LOWER_COMPILED, UPPER_COMPILED = 0.9, 1.1
"""The bounds as multiples of the compiled size.

TensorFlow's own XLA is a different version, and its allocator may leave gaps. Assumed: neither effect was measured on a
GPU.
"""


@dataclass(frozen=True)
class XlaGrowth:
    """Models how a step's memory grows with the batch size, from its values at a few sizes."""

    known: Mapping[int, int]
    """The memory that the step needs, in bytes, by batch size."""

    @property
    def is_proportional(self) -> bool:
        """True if the known sizes never grow faster than the batch."""
        sizes = sorted(self.known)
        each = [self.known[size] / size for size in sizes]
        return all(later <= _FASTER * earlier for earlier, later in itertools.pairwise(each))

    def at(self, batch: int) -> Interval:
        """Return the bytes needed at a batch size: exact if known, interpolated between known sizes, bounded beyond."""
        sizes = sorted(self.known)
        if batch in self.known:
            return exactly(self.known[batch])
        if batch < sizes[0]:
            return self._below(batch, sizes)
        if batch > sizes[-1]:
            return self._above(batch, sizes)
        after = next(size for size in sizes if size > batch)
        before = sizes[sizes.index(after) - 1]
        return exactly(self._line(before, after, batch))

    def _below(self, batch: int, sizes: list[int]) -> Interval:
        least, most = self.known[sizes[0]] * batch // sizes[0], self.known[sizes[0]]
        expected = self._line(sizes[0], sizes[1], batch) if len(sizes) > 1 else least
        return Interval(least, min(most, max(least, expected)), most)

    def _above(self, batch: int, sizes: list[int]) -> Interval:
        last = sizes[-1]
        share = batch / last if self.is_proportional else (batch / last) ** 2
        most = round(self.known[last] * share)
        line = self._line(sizes[-2], last, batch) if len(sizes) > 1 else self.known[last]
        least = min(most, max(self.known[last], line))
        return Interval(least, least if len(sizes) > 1 else most, most)

    def _line(self, one: int, other: int, batch: int) -> int:
        first, second = self.known[one], self.known[other]
        return round(first + (second - first) * (batch - one) / (other - one))


@dataclass(frozen=True)
class Peaks:
    """The peak at any batch size, in bytes, including everything in TensorFlow's allocator."""

    measured: Mapping[int, int]
    """The highest peak of a few steps, by batch size; at least one entry."""
    course: Course
    is_loose: bool = False
    """True if the allocator claimed memory only as needed, and so handed out blocks up to twice the needed size."""
    fits_below: int = 0
    """The allocator's limit, in bytes, if the measured sizes have just run within it; 0 otherwise."""

    def at(self, batch: int) -> Interval:
        """Return the peak of a step with this many samples."""
        found = self.course(batch)
        if self.is_loose:
            found = Interval(round(_LOOSE * found.low), found.expected, found.high)
        if self.fits_below and batch <= max(self.measured):  # at least this many samples have just run
            high = max(found.expected, min(found.high, self.fits_below))
            return Interval(found.low, found.expected, high)
        return found


def rising(measured: Mapping[int, int]) -> dict[int, int]:
    """Return the peaks by increasing batch size, each raised to at least the previous one, as steps vary by chance."""
    found: dict[int, int] = {}
    for batch in sorted(measured):
        found[batch] = max(measured[batch], *found.values(), 0)
    return found


def simulated_course(measured: Mapping[int, int], predicted: Callable[[int], int], held: int) -> Course:
    """Scale the simulated peaks to match the sizes that ran; `held` bytes are always in use."""
    heights = rising(measured)
    sizes = sorted(heights)

    def expected(batch: int) -> float:
        before = [size for size in sizes if size <= batch]
        if not before:
            return heights[sizes[0]] * predicted(batch) / predicted(sizes[0])
        at = before[-1]
        if at == sizes[-1]:
            return heights[at] * predicted(batch) / predicted(at)
        after = sizes[sizes.index(at) + 1]
        rise = predicted(after) - predicted(at)
        part = (predicted(batch) - predicted(at)) / rise if rise > 0 else 0.0
        return heights[at] + min(1.0, max(0.0, part)) * (heights[after] - heights[at])

    def course(batch: int) -> Interval:
        middle = max(held, round(expected(batch)))
        wider = wider_beyond(batch, sizes[-1])
        low = max(held, round(LOWER * middle / wider))
        return Interval(min(low, middle), middle, round(UPPER * middle * wider))

    return course


def grown_course(measured: Mapping[int, int], fixed: Callable[[int], int], predicted: Callable[[int], int]) -> Course:
    """Return the peaks of a step that XLA compiles: `fixed` bytes are counted, and the rest is extrapolated.

    If only one size ran, the bounds are proportional to the batch. The expected value between them follows the
    simulation, which cannot see XLA's buffers but knows which memory does not grow.

    Args:
        measured: the peaks by batch size.
        fixed: returns the bytes that a step of a given size always holds: variables and input.
        predicted: returns the simulated peak at a given size.
    """
    heights = rising(measured)
    growth = XlaGrowth({batch: max(0, peak - fixed(batch)) for batch, peak in heights.items()})

    def course(batch: int) -> Interval:
        rest, base = growth.at(batch), fixed(batch)
        expected = base + rest.expected
        if len(heights) == 1:
            ((only, peak),) = heights.items()
            followed = round(peak * predicted(batch) / predicted(only))
            expected = min(base + rest.high, max(base + rest.low, followed))
        low = min(expected, max(base, round(LOWER_XLA * (base + rest.low))))
        return Interval(low, expected, round(UPPER_XLA * (base + rest.high)))

    return course


@dataclass(frozen=True)
class CompiledStep:
    """Predicts a step's memory at any batch size from compilations at a few."""

    compiled: Mapping[int, Compiled]
    """The memory that XLA assigned, by batch size; at least one entry."""
    held: Held
    inputs: Callable[[int], int]
    """Returns the size in bytes of a batch with a given number of samples."""
    convolution: Callable[[int], int]
    """Returns the number of bytes that the largest convolution reads and writes at a given size; 0 if there is none."""

    def peak(self, batch: int) -> Interval:
        """Return the peak of a step with this many samples."""
        return _together(self.items(batch))

    def peak_of_share(self, batch: int, share: float) -> Interval:
        """Return the peak of a step that needs this fraction of the memory, but the same workspaces."""
        whole = _together(self._without_workspaces(batch))
        return whole.scaled(share) + _together(self._workspaces(batch))

    def items(self, batch: int) -> tuple[Item, ...]:
        """Return the parts of the peak, which add up to it."""
        return (*self._without_workspaces(batch), *self._workspaces(batch))

    def _workspaces(self, batch: int) -> tuple[Item, ...]:
        return xla_workspaces(self.convolution(batch))

    def _without_workspaces(self, batch: int) -> tuple[Item, ...]:
        waiting = self.inputs(batch)
        return (
            *self.held.items(),
            Item("input batch", exactly(waiting), "counted"),
            Item("buffers that XLA assigns", self._buffers(batch), "compiled"),
            Item("waiting input batches", Interval(0, waiting, 2 * waiting), "assumed"),
        )

    def _buffers(self, batch: int) -> Interval:
        """Return the memory of XLA's buffers, with room for a copy of the largest variable in the first step."""
        size = self.growth.at(batch)
        return Interval(
            round(LOWER_COMPILED * size.low), size.expected, round(UPPER_COMPILED * size.high) + self.held.largest
        )

    @cached_property
    def growth(self) -> XlaGrowth:
        """The growth of the memory, excluding held variables and inputs."""
        variables = self.held.total
        return XlaGrowth(
            {size: max(0, each.total - variables - self.inputs(size)) for size, each in self.compiled.items()}
        )


def _together(items: Iterable[Item]) -> Interval:
    return together(item.size for item in items)
