"""The peak of a step at any batch size, from real steps at a few sizes on the GPU itself. Pure.

The figures meet the sizes that ran, and elsewhere follow the simulation or, if XLA hides the buffers, what is known of
their growth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oomph.planning import calibration
from oomph.planning.estimate import Interval
from oomph.planning.xla.growth import XlaGrowth

_LOOSE = 0.55
"""The share of a loose allocator's count that may suffice (`Peaks.is_loose`).

Seen on the fake GPU of tests/rig: 160 of 276 MiB.
"""
LOWER, UPPER = 0.9, 1.25
"""The bounds as multiples of a measured or corrected peak without XLA: memory layout varies between processes."""
LOWER_XLA, UPPER_XLA = 0.75, 1.25
"""The bounds as multiples of the peak of a compiled step that ran. The first step, in which XLA tries out several
algorithms at a time, decides: on the fake GPU of tests/rig a fit took 0.84 to 0.88 of what the same size took in a
probe."""

Course = Callable[[int], Interval]
"""A function from the batch size to the peak, with bounds that allow for another process's memory layout."""


@dataclass(frozen=True)
class Peaks:
    """The peak at any batch size, in bytes of everything in TensorFlow's allocator."""

    measured: Mapping[int, int]
    """The highest peak of a few steps, by batch size; at least one entry."""
    course: Course
    is_loose: bool = False
    """True if the allocator took memory only as needed, and so gave out blocks that are up to twice too large."""
    fits_below: int = 0
    """The allocator's limit in bytes if the measured sizes ran within it just now; else 0."""

    def at(self, batch: int) -> Interval:
        """The peak of a step with this many samples."""
        found = self.course(batch)
        if self.is_loose:
            found = Interval(round(_LOOSE * found.low), found.expected, found.high)
        if self.fits_below and batch <= max(self.measured):  # this much or more has just run
            high = max(found.expected, min(found.high, self.fits_below))
            return Interval(found.low, found.expected, high)
        return found


def rising(measured: Mapping[int, int]) -> dict[int, int]:
    """The peaks by rising batch size, each at least that of the size before it: steps differ by chance."""
    found: dict[int, int] = {}
    for batch in sorted(measured):
        found[batch] = max(measured[batch], *found.values(), 0)
    return found


def simulated_course(measured: Mapping[int, int], predicted: Callable[[int], int], held: int) -> Course:
    """The simulated peaks, scaled to meet the sizes that ran; `held` bytes are always in use."""
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
        wider = calibration.wider_beyond(batch, sizes[-1])
        low = max(held, round(LOWER * middle / wider))
        return Interval(min(low, middle), middle, round(UPPER * middle * wider))

    return course


def grown_course(measured: Mapping[int, int], fixed: Callable[[int], int], predicted: Callable[[int], int]) -> Course:
    """The course of a step that XLA compiles: `fixed` bytes are counted, and the rest grows from what ran.

    If a single size ran, the bounds are in proportion to the batch, and what is expected between them follows the
    simulation, which does not see XLA's buffers but knows what does not grow.

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
