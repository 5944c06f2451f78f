"""A leak of tensors: what TensorFlow's allocator holds at the same point of each epoch keeps growing. Pure.

The readings come from within the training process. Four series are looked at: ends of epochs; those of two fits in a
row; the first end of an epoch of each `fit`, for models that are kept from one to the next; and readings within epochs,
for epochs that take hours and leaks that take minutes. Only the newest process counts: the one before took its memory
with it. Growth is called a leak when it is nearly too late for a buffer to be full: after 90 % of what was left of the
training, or after 80 % of the free memory (85 % within the first epoch, whose end may free it). Without a known end of
the training, it is after 40 epochs in two fits, or after three hours that took 20 % of the free memory. From fit to
fit it is after 40, or after ten that each leave 5 % of the smallest behind; and models that are kept after five that
each add the same, or eight of any size. Before, growth is a notice if it would reach the limit before the training
ends, or has gone on for 50 minutes where that is not known. Thresholds: measured on the development families of
benchmarks/leak_set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from oomph.monitor.baseline_series import Series, series_of
from oomph.monitor.endurance import share_of_room, takes_most_of_the_plan
from oomph.monitor.even_rises import even_rises
from oomph.monitor.finding import Finding
from oomph.monitor.growth import Gates, Growth, steady_growth
from oomph.monitor.kept_models import kept_models
from oomph.monitor.outlook import Outlook, amount, remaining_seconds
from oomph.monitor.window import Window

FAULTS = ("memory-leak",)
EVERY = 10.0
SUBJECT = "TensorFlow's memory"
_MIB = 1 << 20
_GATES = {
    "epoch": Gates(readings=8, least_bytes=_MIB, straight=6.0),
    "fit": Gates(readings=10, least_bytes=_MIB),
    "step": Gates(readings=12, least_bytes=_MIB),
}
_OF_ROOM, _OF_ROOM_IN_AN_EPOCH = 0.8, 0.85
_LAST_RISES, _RISES_OF_ROOM, _RISES_OF_PLAN = 3, 5, 6
"""Even rises from epoch to epoch that stand for a trend: where the next does not fit, and with most of the memory or
of the training gone. A ring of copies has a few rises as well."""
_EPOCHS, _STEPS_SECONDS, _LEAST_OF_ROOM = 40, 3 * 3600.0, 0.2
"""How long growth has to go on, and how much of the free memory it takes, where the end of the training is unknown."""
_PLANNED_STEPS_SECONDS = 5 * 60.0
"""The least for readings within epochs where the end is known."""
_OF_FIT = 0.05
"""What each fit leaves behind, as a share of the smallest: part of a model, and not of a buffer that outlives fits."""
_FEW_EPOCHS = 10
"""With so many, ends of epochs tell more than readings within them."""
_EACH_FIT = 0.4
"""The share of the growth across two fits that lies in each of them."""
_SOON_SECONDS, _LASTING_SECONDS = 3600.0, 50 * 60.0
"""Without a known end of the training, growth is reported early only if it reaches the limit within the first of these
times, or has gone on for the second."""
_LARGE_STEPS = 1000
"""Growth within epochs is told for so many steps."""


def find(window: Window) -> Iterator[Finding]:
    """A leak, in terms of epochs, fits or steps: the first that shows it; or else growth that may become one."""
    limit, notices = window.newest.training.get("allocator_limit_bytes"), []
    for series in series_of(window):
        room = None if limit is None else max(limit - series.baselines[-1].bytes_in_use, 0.0)
        growth = steady_growth(series.settled, _GATES[series.unit])
        if growth is not None and _has_lasted(growth, series, room):
            yield _finding(window, growth, series)
            return
        few = _few_rises(series, room)
        if few is not None:
            yield _finding(window, few, series)
            return
        if growth is not None and series.is_whole and _is_worth_a_notice(growth, series, room):
            notices.append(_notice(window, growth, series))
    yield from notices[:1]


def _has_lasted(growth: Growth, series: Series, room: float | None) -> bool:
    """Whether growth is more than a buffer that fills."""
    share, length = share_of_room(growth.grown, room), growth.end - growth.begin
    if share >= (_OF_ROOM if series.is_whole else _OF_ROOM_IN_AN_EPOCH):
        return True
    if not series.is_whole:
        return False
    seconds = length * series.seconds_per_unit
    if series.planned is not None:
        is_long = series.kind == "epochs" or seconds >= _PLANNED_STEPS_SECONDS
        return is_long and takes_most_of_the_plan(growth.begin, growth.end, series.planned)
    if series.kind == "fits" and growth.rate >= _OF_FIT * min(value for _, value in series.points):
        return True
    if (
        series.kind == "across fits"
        and min(growth.end - series.again, series.again - growth.begin) < _EACH_FIT * length
    ):
        return False
    if series.kind != "steps":
        return length >= _EPOCHS
    enough = room is None or share >= _LEAST_OF_ROOM
    return enough and series.ended < _FEW_EPOCHS and seconds >= _STEPS_SECONDS


def _few_rises(series: Series, room: float | None) -> Growth | None:
    """Growth with too few readings for a trend, but the same rise in each."""
    if series.kind == "fits":
        return kept_models(series, _MIB)
    growth = even_rises(series.points, _LAST_RISES, _MIB) if series.kind == "epochs" else None
    if growth is None:
        return None
    rises, planned = growth.readings - 1, series.planned
    is_last = room is not None and room < growth.rate
    takes_room = rises >= _RISES_OF_ROOM and share_of_room(growth.grown, room) >= _OF_ROOM
    takes_plan = planned is not None and takes_most_of_the_plan(growth.begin, growth.end, planned)
    return growth if is_last or takes_room or (takes_plan and rises >= _RISES_OF_PLAN) else None


def _is_worth_a_notice(growth: Growth, series: Series, room: float | None) -> bool:
    """Whether growth that does not stop takes all memory before the training ends, as far as that is known."""
    if room is None:
        return False
    units = room / growth.rate
    if series.planned is not None:
        return growth.end + units <= series.planned
    lasted = (growth.end - growth.begin) * series.seconds_per_unit
    return units * series.seconds_per_unit <= _SOON_SECONDS or lasted >= _LASTING_SECONDS


def _notice(window: Window, growth: Growth, series: Series) -> Finding:
    """What is said before growth is called a leak."""
    found = _finding(window, growth, series)
    message = f"{found.message}, unless it only fills a buffer"
    return replace(found, message=message, severity="notice", kind="filling")


def _finding(window: Window, growth: Growth, series: Series) -> Finding:
    training, unit = window.newest.training, series.unit
    limit = training.get("allocator_limit_bytes")
    held = max(training.get("allocator_peak_bytes", 0.0), series.baselines[-1].bytes_in_use)
    outlook = Outlook(
        rate=growth.rate,
        room=None if limit is None else max(limit - held, 0.0),
        seconds_per_unit=series.seconds_per_unit,
        unit="" if unit == "step" else unit,
        remaining=None if unit == "fit" else remaining_seconds(training),
    )
    return Finding(
        fault=FAULTS[0],
        subject=SUBJECT,
        message=f"what tensors hold grows by {_rate(growth.rate, unit)}{outlook.text}",
        severity=outlook.severity,
        evidence={
            "unit": unit,
            "bytes_per_unit": round(growth.rate),
            "grown_bytes": round(growth.grown),
            "since": growth.begin,
            "until": growth.end,
            **outlook.evidence,
        },
    )


def _rate(rate: float, unit: str) -> str:
    if unit == "step":
        return f"{amount(rate * _LARGE_STEPS)} every {_LARGE_STEPS:,} steps"
    return f"{amount(rate)} {'an' if unit == 'epoch' else 'a'} {unit}"
