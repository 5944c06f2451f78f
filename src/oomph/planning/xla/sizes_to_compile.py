"""Chooses batch sizes to compile: those asked for, then the largest one that should fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from oomph.planning.largest import MOST, largest_batch

MOST_SIZES = 3
ENOUGH_SECONDS = 90.0
"""No further size begins if it would probably end more than this many seconds after the first one began."""
_NEAR = 1 / 8
"""A size that differs from a compiled one by at most this share of it tells nothing new."""


def is_time_left(spent: float, last: float) -> bool:
    """True if there is time to compile one more size."""
    return spent + last <= ENOUGH_SECONDS


def next_size(done: Collection[int], asked: Sequence[int], high: Callable[[int], int], limit: int | None) -> int | None:
    """The next batch size to compile; None if none would tell more.

    Args:
        done: the sizes that were compiled.
        asked: the sizes of the plan, rising.
        high: returns the most bytes that a batch size may need, as far as known.
        limit: the device's memory in bytes; None without a device.
    """
    if len(done) >= MOST_SIZES:
        return None
    if not done:
        return asked[-1]
    if len(done) == 1 and asked[0] not in done:
        return asked[0]
    guess = None if limit is None else min(MOST, largest_batch(high, limit, asked[-1]))
    if not guess or any(abs(guess - size) <= _NEAR * size for size in done):
        return None
    return guess
