"""Ranges of versions, such as "2.13 to 2.15": all that a path or a prefix in a log reveals. Pure."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple, TypeAlias

Version: TypeAlias = tuple[int, ...]
"""The numbers of a version, as many as are known: (2, 15) stands for every 2.15."""
_MOST_PARTS, _LONGEST_PART = 4, 6


def version(text: str) -> Version:
    """Return the leading numbers of a version such as "2.15.0rc1"; empty if there are none."""
    numbers = list[int]()
    for part in text.split(".")[:_MOST_PARTS]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > _LONGEST_PART:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


class VersionRange(NamedTuple):
    """The versions from `since` to `until`, both included. An open end is None."""

    since: Version | None = None
    until: Version | None = None

    @classmethod
    def exactly(cls, known: Version) -> VersionRange:
        """Return the range of this version and all that are more precise."""
        return cls(known, known)

    def is_from(self, first: Version) -> bool:
        """True if every version of the range is `first` or later."""
        return self.since is not None and not _less(self.since, first)

    def is_before(self, first: Version) -> bool:
        """True if every version of the range is earlier than `first`."""
        return self.until is not None and _less(self.until, first)

    def common(self, other: VersionRange) -> VersionRange | None:
        """Return the versions that both ranges contain, or None if there are none."""
        since = max((each for each in (self.since, other.since) if each is not None), default=None)
        until = self._earlier_end(other)
        if since is not None and until is not None and _less(until, since):
            return None
        return VersionRange(since, until)

    def _earlier_end(self, other: VersionRange) -> Version | None:
        if self.until is None or other.until is None:
            return other.until if self.until is None else self.until
        if _less(self.until, other.until):
            return self.until
        if _less(other.until, self.until):
            return other.until
        return max(self.until, other.until, key=len)


def _less(one: Version, other: Version) -> bool:
    """True if `one` is certainly earlier: at the first difference among the numbers that both have."""
    for a, b in zip_longest(one, other):
        if a is None or b is None:
            return False
        if a != b:
            return bool(a < b)
    return False
