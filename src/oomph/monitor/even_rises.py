"""Even rises: memory that rises by the same amount each time, which tells more than a trend does. Pure.

A list that keeps a model of each fit, or the outputs of each epoch, adds the same bytes each time. A few such rises
are no chance, where a trend of noisy readings needs ten. They have to lead to where memory never was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from oomph.monitor.growth import Growth, Point, reaches_new_heights

_UNEVEN = 0.2
"""By how much of the usual rise one may differ from it."""


def even_rises(points: Sequence[Point], rises: int, least_bytes: float) -> Growth | None:
    """The newest rises, as far back as they are even; None if they are fewer than `rises`."""
    sizes = [after - before for (_, before), (_, after) in pairwise(points)]
    if len(sizes) < rises:
        return None
    usual, number = median(sizes[-rises:]), 0
    while number < len(sizes) and abs(sizes[-1 - number] - usual) <= _UNEVEN * usual:
        number += 1
    earlier, since = points[: -1 - number], points[-1 - number :]
    grown, length = since[-1][1] - since[0][1], since[-1][0] - since[0][0]
    if number < rises or grown < least_bytes:
        return None
    growth = Growth(grown / length, grown, since[0][0], since[-1][0], len(since), goes_on=True)
    return growth if reaches_new_heights(earlier, since, growth) else None
