"""Endurance: which share of the memory and of the training growth has already taken. Pure.

A buffer that fills is a leak until it stops, and nothing in its readings tells when. But one that somebody meant is
full well before the training ends, and leaves memory free. Growth that has gone on for most of what was left of the
training, or has taken most of the memory that was free, does neither.
"""

from __future__ import annotations

_OF_PLAN = 0.9
"""The share of what was left of the training: buffers are made for a third of it, or a half, seldom for more."""
_LEAST_OF_PLAN = 0.25
"""Growth over a smaller share of the whole training tells nothing, however little is left."""


def takes_most_of_the_plan(begin: float, now: float, planned: float) -> bool:
    """Whether growth since `begin` has gone on for most of what was left until `planned`; places as of the readings."""
    return now - begin >= max(_OF_PLAN * (planned - begin), _LEAST_OF_PLAN * planned)


def share_of_room(grown: float, room: float | None) -> float:
    """The share of the memory that was free when growth began; 0 without a known limit. `room` is what is free now."""
    return 0.0 if room is None else grown / max(grown + room, 1.0)
