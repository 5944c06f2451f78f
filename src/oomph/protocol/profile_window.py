"""ProfileWindow: the steps that `oomph run --profile START:STOP` records. Standard library only."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_STEPS = 100
"""The most steps to record. A step leaves up to some megabytes, and ten are usually enough."""
_WINDOW = re.compile(r"(\d{1,15}):(\d{1,15})", re.ASCII)


class ProfileWindow(NamedTuple):
    """The steps after the first `start` ones, up to and including step `stop`: as many as in a slice in Python."""

    start: int
    stop: int

    @classmethod
    def parse(cls, text: str) -> ProfileWindow:
        """Parse START:STOP. Raises ValueError with a sentence if it is something else, or too long."""
        found = _WINDOW.fullmatch(text)
        if found is None:
            raise ValueError(f"{text} is not START:STOP, such as 100:110 for the 10 steps after the first 100")
        window = cls(int(found[1]), int(found[2]))
        steps = window.stop - window.start
        if steps <= 0:
            raise ValueError(f"{text} has no steps: STOP must be greater than START")
        if steps > MOST_STEPS:
            raise ValueError(f"{text} is {steps:,} steps, a trace too large to read: record at most {MOST_STEPS}")
        return window

    def has_begun(self, steps: int, ahead: int) -> bool:
        """True if one of the next `ahead` steps, after the first `steps` ones, is in the window or beyond."""
        return steps + ahead > self.start

    def is_over(self, steps: int) -> bool:
        """True if all steps of the window are among the first `steps` ones."""
        return steps >= self.stop

    def is_covered(self, first: int, last: int) -> bool:
        """True if a trace of steps `first` to `last`, counted from 1, has all steps of the window."""
        return first <= self.start + 1 and last >= self.stop
