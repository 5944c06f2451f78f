"""The end states of finished fits: what they come to on the disk, and when that is worth a line. Pure."""

from __future__ import annotations

_FIRST_BYTES = 200 << 20


class EndStates:
    """Counts what finished fits leave behind until the run is finished: a line at 200 MiB, and at each doubling."""

    def __init__(self) -> None:
        self._count = self._bytes = 0
        self._next_bytes = _FIRST_BYTES

    def add(self, nbytes: int) -> str:
        """One more; what to say about all of them, mostly nothing."""
        self._count += 1
        self._bytes += nbytes
        if self._bytes < self._next_bytes:
            return ""
        while self._next_bytes <= self._bytes:
            self._next_bytes *= 2
        fits = "a finished fit take" if self._count == 1 else f"{self._count} finished fits take"
        return (
            f"the end states of {fits} {self._bytes / 1e6:.0f} MB of the run directory:"
            " with them a restart need not train again; they go when the run has finished"
        )
