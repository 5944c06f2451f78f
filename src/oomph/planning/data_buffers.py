"""Describes the data that pipeline stages keep, and the space available for it."""

from __future__ import annotations

from dataclasses import dataclass

SHUFFLE, CACHE, PREFETCH = "shuffle", "cache", "prefetch"


@dataclass(frozen=True)
class DataBuffer:
    """The elements that one stage of a tf.data pipeline keeps."""

    kind: str
    """The kind of stage: "shuffle", "cache" or "prefetch"."""
    elements: int | None
    """The number of elements in the full buffer; None if unknown."""
    element_bytes: int | None
    """The approximate size of one element, in bytes; None if unknown."""
    file: str = ""
    """The file of an on-disk cache; empty for other buffers."""

    @property
    def bytes(self) -> int | None:
        """The size of the full buffer, in bytes; None if unknown."""
        return None if self.elements is None or self.element_bytes is None else self.elements * self.element_bytes


@dataclass(frozen=True)
class Room:
    """The space available for buffers on this machine, in bytes; None if unknown."""

    memory: int | None = None
    """The machine's memory, or the lowest limit of our control groups if it is lower."""
    disk: int | None = None
    """The free disk space for cache files."""


NO_ROOM_KNOWN = Room()
