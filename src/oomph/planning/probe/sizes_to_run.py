"""Chooses batch sizes to run on the GPU: a few small ones, then those asked for, if they should fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from oomph.planning.largest import largest_batch

PROBING = "running a few steps on the GPU"
"""The message to show while steps run."""
MOST_SIZES = 6
_MOST_SECONDS = 180.0
"""No further size begins if it would probably end more than this many seconds after the first one began."""
_FIRST = (2, 8, 32)
"""The small sizes to begin with if the step runs operation by operation."""
_PART_XLA, _LESS = 4, 8


def is_time_left(spent: float, last: float) -> bool:
    """True if there is time to run one more size, which takes as long as the last one."""
    return spent + last <= _MOST_SECONDS


def sizes_wanted(is_xla: bool, asked: Sequence[int], should_fit: bool) -> tuple[int, ...]:
    """The sizes that the plan wants measured, in order.

    A step that runs operation by operation begins with small sizes, at most half of the largest that was asked for. One
    that XLA compiles takes long for each size, and small batches use other algorithms, whose memory tells little: it
    begins with the largest that was asked for, if that should fit, and a quarter of it comes next.

    Args:
        is_xla: whether XLA compiles the step.
        asked: the sizes of the plan, rising.
        should_fit: whether the largest should fit, by the simulation.
    """
    most = asked[-1]
    if not is_xla:
        return tuple(dict.fromkeys((*(size for size in _FIRST if 2 * size <= most), most, *asked)))
    part = max(1, most // _PART_XLA)
    first = (most, part) if should_fit else (part, most)
    return tuple(dict.fromkeys((*first, *asked)))


def next_to_run(
    ran: Collection[int], ran_out: int | None, wanted: Sequence[int], high: Callable[[int], int], limit: int
) -> int | None:
    """The next batch size to run; None if no other is worth a step.

    Where a wanted size may not fit by what is known so far, a smaller one that should is run first: the bound is
    narrower after it. Where the first size runs out of memory, a much smaller one runs, if the model takes others.

    Args:
        ran: the sizes that ran.
        ran_out: the smallest size that ran out of memory.
        wanted: the sizes that the plan wants measured, in order; the first always runs.
        high: returns the most bytes that a batch size may need, by what is known so far.
        limit: the device's limit in bytes.
    """
    if not ran:
        if ran_out is None:
            return wanted[0]
        return max(1, ran_out // _LESS) if ran_out > 1 and len(wanted) > 1 else None
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
