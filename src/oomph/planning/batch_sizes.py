"""Chooses batch sizes: the largest that fits, the ones to run on the GPU, and the ones to compile. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

MOST = 1 << 20
"""The largest batch size to try."""
PROBING = "running a few steps on the GPU"
"""The message to show while steps run."""
MOST_RUN = 6
_MOST_SECONDS = 180.0
"""No further size starts if it would probably finish more than this many seconds after the first one started."""
_FIRST = (2, 8, 32)
"""The small sizes to start with if the step runs one operation at a time."""
_PART_XLA, _LESS = 4, 8
_MOST_COMPILED = 3
ENOUGH_SECONDS = 90.0
"""No further size starts if it would probably finish more than this many seconds after the first one started."""
_NEAR = 1 / 8
"""A size within this relative difference of a compiled one reveals nothing new."""


def largest_batch(high: Callable[[int], int], limit: int, start: int = 1) -> int:
    """Find the largest batch whose `high(batch)`, in bytes, is within the limit; 0 if even one sample exceeds it.

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


def can_run_more(spent: float, last: float) -> bool:
    """True if there is time to run one more size, assuming it takes as long as the last one."""
    return spent + last <= _MOST_SECONDS


def sizes_wanted(is_xla: bool, asked: Sequence[int], should_fit: bool) -> tuple[int, ...]:
    """Return the batch sizes that the plan should measure, in order.

    A step that runs one operation at a time starts with small sizes, at most half of the largest requested size. A step
    that XLA compiles needs a long time for each size, and small batches use different algorithms that reveal little. It
    starts with the largest requested size, if that should fit, followed by a quarter of that size.

    Args:
        is_xla: True if XLA compiles the step.
        asked: the requested sizes, in increasing order.
        should_fit: True if the largest requested size should fit, according to the simulation.
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
    """Return the next batch size to run, or None if no further size is worth running.

    If a wanted size may not fit, judging by what is known, a smaller one that should fit runs first and narrows the
    bound. If the first size runs out of memory, a much smaller one runs, provided the model accepts other sizes.

    Args:
        ran: the sizes that ran.
        ran_out: the smallest size that ran out of memory.
        wanted: the sizes that the plan should measure, in order; the first always runs.
        high: returns the currently known upper bound on the bytes that a batch size needs.
        limit: the device's limit, in bytes.
    """
    if not ran:
        if ran_out is None:
            return wanted[0]
        return max(1, ran_out // _LESS) if ran_out > 1 and len(wanted) > 1 else None
    if len(ran) >= MOST_RUN:
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


def can_compile_more(spent: float, last: float) -> bool:
    """True if there is time to compile one more size, assuming it takes as long as the last one."""
    return spent + last <= ENOUGH_SECONDS


def next_size(done: Collection[int], asked: Sequence[int], high: Callable[[int], int], limit: int | None) -> int | None:
    """Return the next batch size to compile, or None if compiling another would reveal nothing more.

    Args:
        done: the sizes that have been compiled.
        asked: the requested sizes, in increasing order.
        high: returns the currently known upper bound on the bytes that a batch size needs.
        limit: the device's memory, in bytes; None without a device.
    """
    if len(done) >= _MOST_COMPILED:
        return None
    if not done:
        return asked[-1]
    if len(done) == 1 and asked[0] not in done:
        return asked[0]
    guess = None if limit is None else min(MOST, largest_batch(high, limit, asked[-1]))
    if not guess or any(abs(guess - size) <= _NEAR * size for size in done):
        return None
    return guess
