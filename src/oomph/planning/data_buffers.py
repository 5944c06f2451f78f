"""What the stages of a pipeline keep, against what there is."""

from __future__ import annotations

from dataclasses import dataclass

SHUFFLE, CACHE, PREFETCH = "shuffle", "cache", "prefetch"


@dataclass(frozen=True)
class DataBuffer:
    """The elements that one stage of a tf.data pipeline keeps."""

    kind: str
    """"shuffle", "cache" or "prefetch"."""
    elements: int | None
    """How many it keeps once it is full; None where that is not known."""
    element_bytes: int | None
    """About the size of one; None where that is not known."""
    file: str = ""
    """Of a cache on disk: its name."""

    @property
    def bytes(self) -> int | None:
        """What all of them take; None where that is not known."""
        return None if self.elements is None or self.element_bytes is None else self.elements * self.element_bytes


@dataclass(frozen=True)
class Room:
    """What buffers may take on this machine, in bytes; None where that is not known."""

    memory: int | None = None
    """The least of its memory and of the limits of our control groups."""
    disk: int | None = None
    """Free where the caches are written."""


NO_ROOM_KNOWN = Room()
