"""Regular expressions that are compiled on first use. Used in both processes.

Compiling every pattern that oomph knows takes longer than the rest of startup, and most logs need only a few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class LazyPattern:
    """Stands in for a compiled pattern: has its text and flags, and compiles it on first use."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __repr__(self) -> str:
        return f"lazy_pattern({self.pattern!r}, {self.flags})"

    def __getattr__(self, method: str) -> Any:
        found = getattr(re.compile(self.pattern, self.flags), method)
        setattr(self, method, found)  # from now on, access is as fast as on the pattern itself
        return found


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for the result of `re.compile`, with the same methods."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))
