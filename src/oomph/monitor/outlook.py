"""Predicts when growing memory reaches its limit, and whether that happens before training ends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from oomph.terminal.amounts import counted

_SOON_SECONDS = 24 * 3600.0
"""The seconds within which a limit has to be reached to be worth a warning, if the end of training is unknown."""
_UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))
_MIB, _GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Outlook:
    """The outlook for steady growth."""

    rate: float
    """The growth in bytes per unit."""
    room: float | None
    """The number of bytes left before the limit, or None if no limit is known."""
    seconds_per_unit: float
    unit: str = ""
    """The name of a unit, "epoch" or "fit"; empty if the units would mean nothing to users."""
    remaining: float | None = None
    """The remaining training time in seconds, or None if unknown."""

    @property
    def units(self) -> float | None:
        """The number of units until the limit is reached, or None if unknown."""
        return None if self.room is None else self.room / self.rate

    @property
    def seconds(self) -> float | None:
        """The time, in seconds, until the limit is reached, or None if unknown."""
        return None if self.units is None else self.units * self.seconds_per_unit

    @property
    def is_in_time(self) -> bool:
        """True if the limit will be reached before training ends, as far as is known."""
        return self.seconds is None or self.remaining is None or self.seconds < self.remaining

    @property
    def severity(self) -> Literal["notice", "warning", "critical"]:
        """The severity: critical if training will run out of memory before it ends."""
        if self.seconds is None:
            return "warning"
        if self.remaining is None:
            return "warning" if self.seconds <= _SOON_SECONDS else "notice"
        return "critical" if self.seconds < self.remaining else "notice"

    @property
    def text(self) -> str:
        """The rest of a sentence that starts by saying how memory grows."""
        if self.seconds is None or self.units is None:
            return ""
        number = round(self.units)
        units = f" ({counted(number, self.unit)})" if self.unit else ""
        after = "" if self.remaining is None or self.seconds < self.remaining else ", after this training ends"
        return f" and will reach the limit in {about(self.seconds)}{units}{after}"

    @property
    def evidence(self) -> dict[str, Any]:
        """The same values, for programs."""
        figures = {"room_bytes": self.room, "seconds_to_limit": self.seconds, "remaining_seconds": self.remaining}
        return {key: round(value) for key, value in figures.items() if value is not None}


_FIRST_FIT = 1.05
"""The maximum ratio of all steps to those of the current fit if the process has trained nothing else."""


def remaining_seconds(training: Mapping[str, float]) -> float | None:
    """Return the seconds left in the current fit at the average pace so far, or None if unknown.

    It is also unknown when the process has run other fits before: more may follow, and memory is not freed in between.
    """
    try:
        done = (training["epoch"] - 1) * training["steps_per_epoch"] + training["step_of_epoch"]
        if training["steps_total"] > _FIRST_FIT * done + 1:
            return None
        steps = training["epochs"] * training["steps_per_epoch"] - done
        return max(steps, 0.0) * training["step_seconds_total"] / training["steps_total"]
    except (KeyError, ZeroDivisionError):
        return None


def share_of_room(grown: float, room: float | None) -> float:
    """Return the growth as a share of the memory that was free when it began, or 0 if there is no limit.

    `room` is the memory that is free now, in bytes.
    """
    return 0.0 if room is None else grown / max(grown + room, 1.0)


def about(seconds: float) -> str:
    """Format a rough duration: "about 40 minutes", "less than a minute"."""
    for length, name in _UNITS:
        number = round(seconds / length)
        if number >= 2 or (name == "minute" and number):
            return f"about {counted(number, name)}"
    return "less than a minute"


def amount(size: float) -> str:
    """Format a number of bytes as people write it: "12 MiB", "1.4 GiB", "0.3 MiB"."""
    if size >= _GIB:
        return f"{size / _GIB:.1f} GiB"
    mib = size / _MIB
    return f"{mib:.0f} MiB" if mib >= 10 else f"{mib:.1g} MiB" if mib < 1 else f"{mib:.1f} MiB"
