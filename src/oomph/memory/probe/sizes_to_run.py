"""Which batch sizes to run on the GPU: a few small ones, then those that were asked for, if they should fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from oomph.memory.largest import largest_batch

MOST_SIZES = 6
_FIRST = (2, 8, 32)
"""Small sizes of a step that runs operation by operation."""
_FIRST_XLA = (8,)
"""Small sizes of a step that XLA compiles, which takes long for each."""


def small_sizes(is_xla: bool, asked: Sequence[int]) -> tuple[int, ...]:
    """The sizes to begin with: those up to half of the largest one that was asked for, or else that one."""
    small = tuple(size for size in (_FIRST_XLA if is_xla else _FIRST) if 2 * size <= asked[-1])
    return small or (asked[-1],)


def next_to_run(
    ran: Collection[int], ran_out: int | None, wanted: Sequence[int], high: Callable[[int], int], limit: int
) -> int | None:
    """The next batch size to run; None if nothing more is worth a step.

    Where a wanted size may not fit by what is known so far, a smaller one that should is run first: the bound is
    narrower after it. A single sample runs where the first size runs out of memory, unless the model takes that alone.

    Args:
        ran: the sizes that ran.
        ran_out: the smallest size that ran out of memory.
        wanted: the sizes that the plan would like to know, in their order; the first one runs in any case.
        high: the most that a batch size may need, by what is known so far.
        limit: what the device gives, in bytes.
    """
    if not ran:
        return wanted[0] if ran_out is None else 1 if ran_out > 1 and len(wanted) > 1 else None
    if len(ran) >= MOST_SIZES:
        return None
    largest = max(ran)
    for size in wanted:
        if size in ran or (ran_out is not None and size >= ran_out):
            continue
        if size <= largest or high(size) <= limit:
            return size
        between = min(size, largest_batch(high, limit, largest))
        if 2 * largest <= between < size:
            return between
    return None
