"""Messages about the end states of fits: their size on disk, and checkpoints that cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST_BYTES = 200 << 20


class FinalCheckpoints:
    """Adds up the end states of finished fits; reports their total at 200 MiB and at each doubling."""

    def __init__(self) -> None:
        self._count = self._bytes = 0
        self._next_bytes = _FIRST_BYTES

    def add(self, nbytes: int) -> str:
        """Add the bytes of one end state; return a message about the total, usually empty."""
        self._count += 1
        self._bytes += nbytes
        if self._bytes < self._next_bytes:
            return ""
        while self._next_bytes <= self._bytes:
            self._next_bytes *= 2
        fits = "a finished fit take" if self._count == 1 else f"{self._count} finished fits take"
        return (
            f"the end states of {fits} {self._bytes / 1e6:.0f} MB of the run directory:"
            " they save a restart from training those fits again, and are deleted when the run finishes"
        )


Refusal = tuple[str, str]
"""The name of a checkpoint, and why it cannot be used: "tensors.bin does not match its checksum"."""


def of_steps(refusals: Sequence[Refusal], used: str | None) -> list[str]:
    """Return the message lines about refused checkpoints within a fit.

    Args:
        refusals: the refused checkpoints, newest first.
        used: the name of the checkpoint used instead; None when none is left.
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
    """Return the message lines about the refused end state of a finished fit."""
    return [f"end state {name} cannot be read ({reason}): that fit trains again" for name, reason in refusals]
