"""The data that pipeline stages keep, and the space for it."""

from __future__ import annotations

from dataclasses import dataclass

SHUFFLE, CACHE, PREFETCH = "shuffle", "cache", "prefetch"


@dataclass(frozen=True)
class DataBuffer:
    """The elements that one stage of a tf.data pipeline keeps."""

    kind: str
    """"shuffle", "cache" or "prefetch"."""
    elements: int | None
    """Number of elements in a full buffer; None if unknown."""
    element_bytes: int | None
    """Approximate size of one element; None if unknown."""
    file: str = ""
    """File name of a cache on disk."""

    @property
    def bytes(self) -> int | None:
        """The size of all elements; None if unknown."""
        return None if self.elements is None or self.element_bytes is None else self.elements * self.element_bytes


@dataclass(frozen=True)
class Room:
    """The space for buffers on this machine, in bytes; None if unknown."""

    memory: int | None = None
    """The smallest of its memory and our control groups' limits."""
    disk: int | None = None
    """Free space for cache files."""


NO_ROOM_KNOWN = Room()
