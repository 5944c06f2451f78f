"""Whether an amount has risen lately: what is full and stays as it is needs no alarm. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

_AGES = (10.0, 60.0, 300.0, 600.0, 3000.0)


class Rise(NamedTuple):
    """How far an amount rose, and in how many seconds."""

    amount: float
    seconds: float

    def __str__(self) -> str:
        minutes = self.seconds / 60
        return f"{gib(self.amount)} more than " + (
            f"{minutes:.0f} minutes ago" if minutes >= 2 else f"{self.seconds:.0f} s ago"
        )


def rise(window: Window, amount: Callable[[Sample], float | None], least: float) -> Rise | None:
    """The rise by at least `least` in the shortest time, or None."""
    now = amount(window.newest)
    for seconds in _AGES if now is not None else ():
        earlier = window.ago(seconds)
        before, age = amount(earlier), window.newest.time - earlier.time
        if now is not None and before is not None and age >= seconds and now - before >= least:
            return Rise(now - before, age)
    return None


def gib(amount: float) -> str:
    """An amount of memory in words: "79.6 GiB"."""
    return f"{amount / (1 << 30):.1f} GiB" if amount >= 1 << 30 else f"{amount / (1 << 20):.0f} MiB"
