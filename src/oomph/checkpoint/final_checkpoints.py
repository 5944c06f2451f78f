"""Messages about the size of end states on disk, and about checkpoints that cannot be read. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST_BYTES = 200 << 20


class FinalCheckpoints:
    """Adds up the sizes of finished fits' end states, and reports the total at 200 MiB and each time it doubles."""

    def __init__(self) -> None:
        self._count = self._bytes = 0
        self._next_bytes = _FIRST_BYTES

    def add(self, nbytes: int) -> str:
        """Add the size of one end state; return a message about the total, which is usually empty."""
        self._count += 1
        self._bytes += nbytes
        if self._bytes < self._next_bytes:
            return ""
        while self._next_bytes <= self._bytes:
            self._next_bytes *= 2
        fits = "a finished fit take" if self._count == 1 else f"{self._count} finished fits take"
        return (
            f"the end states of {fits} {self._bytes / 1e6:.0f} MB in the run directory:"
            " with them, a restart need not train those fits again; they are deleted when the run finishes"
        )


Refusal = tuple[str, str]
"""A checkpoint's name, and why it cannot be used, such as "tensors.bin does not match its checksum"."""


def of_steps(refusals: Sequence[Refusal], used: str | None) -> list[str]:
    """Return the lines of the message about refused checkpoints within a fit.

    Args:
        refusals: the refused checkpoints, newest first.
        used: the name of the checkpoint used instead, or None if none is left.
    """
    if not refusals:
        return []
    each = ", ".join(f"{name} ({reason})" for name, reason in refusals)
    if used is not None:
        return [f"checkpoint {each} refused; using the previous one, {used}"]
    if len(refusals) == 1:
        return [f"the only checkpoint cannot be read: {each}", "the interrupted fit starts over"]
    return [
        f"none of the {len(refusals)} checkpoints can be read: {each}",
        "the interrupted fit starts over",
    ]


def of_end_states(refusals: Sequence[Refusal]) -> list[str]:
    """Return a message line for each refused end state of a finished fit."""
    return [f"end state {name} cannot be read ({reason}): that fit trains again" for name, reason in refusals]
