"""Regrowth: when to take larger pieces again, as a pure function of what is known of the memory.

Memory comes back when the script lets go of a tensor, or when another process on the same GPU ends. The first shows in
TensorFlow's own count, and a size that the new room holds can be computed. The second does not show: where others
held the rest when a size failed, a larger one is tried now and then, so seldom that a failed trial costs
one percent of the time, and more seldom after each that fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_WORTH_IT = 1.25
"""Room that has grown by less is not worth a new shape."""
_PATIENCE = 100
"""A trial waits that many times as long as a failure costs."""
_RECENTLY = 60.0
"""Seconds after a failure in which nothing larger is tried, whatever the memory says."""


@dataclass(frozen=True)
class Regrowth:
    """What is known about the size in use, in samples, bytes and seconds of a monotonic clock."""

    size: int
    """The piece that fits."""
    room_bytes: int | None
    """What a piece may take, as it was when the size was settled."""
    failed_at: float
    """When a larger piece ran out of memory last."""
    cost: float
    """Seconds that this took."""
    others_hold: bool = False
    """Whether memory below the limit of TensorFlow was missing then: others held it."""
    setbacks: int = 0
    """Trials of a larger size that have failed."""

    def larger(self, now: float, room_bytes: int | None) -> int | None:
        """The size to try now, or None to go on as it is."""
        waited = now - self.failed_at
        if waited < _RECENTLY * 2**self.setbacks:
            return None
        if self.room_bytes and room_bytes and room_bytes >= _WORTH_IT * self.room_bytes:
            return int(self.size * room_bytes / self.room_bytes)  # memory is linear beyond a constant: this fits
        if self.others_hold and waited >= _PATIENCE * self.cost * 2**self.setbacks:
            return 2 * self.size
        return None

    def after_failure(self, now: float, cost: float) -> Regrowth:
        """A trial has failed: the next one waits twice as long."""
        return replace(self, failed_at=now, cost=max(cost, self.cost), setbacks=self.setbacks + 1)
