"""Kept models: memory that stays with each fit of a search or a cross-validation. Pure.

Folds train the same model again, so each that is kept adds the same amount. The models of a search differ in size:
from one to the next memory may even fall, but it rises for good with nearly each of them, and not by more each time, as
with a model that is made larger and larger. In a search that frees its models it does so by chance alone: with ten in
random order, in one case of 4,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from oomph.monitor.baseline_series import Series
from oomph.monitor.even_rises import even_rises
from oomph.monitor.growth import Growth, Point, rises_for_good

_EVEN_RISES = 4
"""Of fits with the same work: five folds."""
_RISES, _OF_FITS = 7, 0.75
"""Of fits with any work."""
_LEAST = 0.05
"""A rise is at least this share of the smallest fit."""
_GROWN = 2.0
"""How often the smallest fit has to fit into what has grown: more than one larger model explains."""

_LEAST_BYTES = 32 * (1 << 20)
"""Of fits with any work: one that frees its model may leave 1 MiB of TensorFlow itself behind (measured)."""


def kept_models(fits: Series, least_bytes: float) -> Growth | None:
    """Growth from fit to fit; None if there is none."""
    even = even_rises(fits.points, _EVEN_RISES, least_bytes)
    if even is not None and even.begin >= fits.again - 1:
        return even
    found = (_for_good(fits, first) for first in range(3))  # the first ones may hold what comes once
    return next((growth for growth in found if growth is not None), None)


def _for_good(fits: Series, first: int) -> Growth | None:
    points = fits.points[first:]
    if len(points) <= _RISES:
        return None
    smallest = min(value for _, value in points)
    rises = rises_for_good(points, max(_LEAST * smallest, 1.0))
    grown, length = points[-1][1] - points[0][1], points[-1][0] - points[0][0]
    if rises < max(_RISES, _OF_FITS * (len(points) - 1)) or grown < max(_GROWN * smallest, _LEAST_BYTES):
        return None
    rises_now = points[-1][1] > points[-3][1] and not _each_is_larger(points)
    return Growth(grown / length, grown, points[0][0], points[-1][0], len(points), True) if rises_now else None


def _each_is_larger(points: Sequence[Point]) -> bool:
    """Whether each rise is larger than the one before: a model that is made larger for each fit, and not kept."""
    rises = [after - before for (_, before), (_, after) in pairwise(points)]
    return all(after > before for before, after in pairwise(rises))
