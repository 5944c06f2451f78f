"""The largest batch whose peak fits, found with few predictions."""

from __future__ import annotations

from collections.abc import Callable

MOST = 1 << 20
"""The largest batch to try, in samples."""


def largest_batch(high: Callable[[int], int], limit: int, start: int = 1) -> int:
    """The largest batch whose `high(batch)`, in bytes, is within the limit; 0 if even one sample exceeds it.

    Tries powers of two times `start`, then halves the gap, and stops within a sixteenth of the answer.
    """
    if high(1) > limit:
        return 0
    fits, batch = 1, max(2, start)
    while batch <= MOST and high(batch) <= limit:
        fits, batch = batch, batch * 2
    if batch > MOST and high(MOST) <= limit:
        return MOST
    too_large = min(batch, MOST)
    while too_large - fits > max(1, fits // 16):
        middle = (fits + too_large) // 2
        if high(middle) <= limit:
            fits = middle
        else:
            too_large = middle
    return fits
