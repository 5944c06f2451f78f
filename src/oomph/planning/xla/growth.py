"""The memory of a compiled step at any batch size, from the sizes at which it was compiled. Pure.

Part of it is fixed: the variables. The rest grows. Each point of the program needs a fixed amount plus an amount per
sample, and the peak is the highest of these lines, so it is convex: between two sizes it lies below the straight line
through them; above the largest one it lies above the line through the last two, and below what grows in proportion to
the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from oomph.planning.estimate import Interval

_FASTER = 1.02
"""Growth above this multiple of proportional growth has a quadratic part."""


@dataclass(frozen=True)
class XlaGrowth:
    """The growth of a step's memory with the batch, known at a few sizes."""

    known: Mapping[int, int]
    """The bytes that the step needs, by batch size."""

    @property
    def is_proportional(self) -> bool:
        """True if the known bytes never grow faster than the batch."""
        sizes = sorted(self.known)
        each = [self.known[size] / size for size in sizes]
        return all(later <= _FASTER * earlier for earlier, later in itertools.pairwise(each))

    def at(self, batch: int) -> Interval:
        """The bytes at a batch size: exact where known, interpolated between known sizes, and bounded beyond them."""
        sizes = sorted(self.known)
        if batch in self.known:
            return _exactly(self.known[batch])
        if batch < sizes[0]:
            return self._below(batch, sizes)
        if batch > sizes[-1]:
            return self._above(batch, sizes)
        after = next(size for size in sizes if size > batch)
        before = sizes[sizes.index(after) - 1]
        return _exactly(self._line(before, after, batch))

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


def _exactly(size: int) -> Interval:
    return Interval(size, size, size)
