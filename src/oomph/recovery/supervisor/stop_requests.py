"""What the signals that have come so far amount to: asked again, asked to end. Pure functions of their times."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from oomph.recovery.supervisor.signals import Arrival


def presses_in_a_row(history: Sequence[Arrival], within: float) -> int:
    """How many Ctrl-C have come, each at most `within` seconds after the one before, the last one included."""
    presses = [arrival.at for arrival in history if arrival.signum == signal.SIGINT]
    count = min(1, len(presses))
    for earlier, later in zip(reversed(presses[:-1]), reversed(presses), strict=False):
        if later - earlier > within:
            break
        count += 1
    return count


def announcements(history: Sequence[Arrival], since: float, usr1: bool) -> list[Arrival]:
    """The signals since then by which a scheduler, or a person, says that the end is near.

    `usr1`: whether SIGUSR1 is one of them, which it is only where the script has left it to oomph.
    """
    signums = (signal.SIGTERM, signal.SIGUSR1) if usr1 else (signal.SIGTERM,)
    return [one for one in history if one.signum in signums and one.at >= since]


def without_echoes(arrivals: Sequence[Arrival], echo: float) -> int:
    """How often it was asked: what comes within `echo` seconds of the one before is that one once more."""
    times = [arrival.at for arrival in arrivals]
    return sum(number == 0 or at - times[number - 1] > echo for number, at in enumerate(times))


def wished_to_end(history: Sequence[Arrival], latest: float) -> bool:
    """SIGTERM is a wish to end for good; Ctrl-C and SIGHUP are when they came after `latest`."""
    return any(
        arrival.signum == signal.SIGTERM or (arrival.signum in (signal.SIGINT, signal.SIGHUP) and arrival.at > latest)
        for arrival in history
    )
