"""Data that the stages of a pipeline keep, and the space there is."""

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
    """About the size of one; None where that is not known."""
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
    """The least of its memory and of the limits of our control groups."""
    disk: int | None = None
    """Free where the caches are written."""


NO_ROOM_KNOWN = Room()
