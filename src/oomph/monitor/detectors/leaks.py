"""Detects memory that grows during training, as seen by the allocator and from outside the process. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from oomph.monitor.baseline_series import Series, series_of
from oomph.monitor.detector import detector
from oomph.monitor.detectors.named_leaks import HOST, TENSORS, is_being_named, named, needs_no_hedge
from oomph.monitor.finding import Finding
from oomph.monitor.growth import Gates, Growth, Point, even_rises, rises_for_good, steady_growth
from oomph.monitor.outlook import Outlook, amount, remaining_seconds, share_of_room
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

_MIB = 1 << 20
_GATES = {
    "epoch": Gates(readings=8, least_bytes=_MIB, straight=6.0),
    "fit": Gates(readings=10, least_bytes=_MIB),
    "step": Gates(readings=12, least_bytes=_MIB),
}
_LEAK_OF_ROOM, _OF_ROOM_IN_AN_EPOCH = 0.8, 0.85
_LAST_RISES, _RISES_OF_ROOM, _RISES_OF_PLAN = 3, 5, 6
"""The number of even rises from epoch to epoch that count as a trend in each of three cases: the next rise will not
fit, the rises have taken most of the free memory, or they have lasted for most of the training. A ring of copies also
rises a few times."""
_EPOCHS, _STEPS_SECONDS, _LEAK_LEAST_OF_ROOM = 40, 3 * 3600.0, 0.2
"""The minimum growth that counts as a leak if the end of training is unknown: in epochs, in seconds, and as a share of
the free memory."""
_PLANNED_STEPS_SECONDS = 5 * 60.0
"""The minimum time, in seconds, that growth within epochs must last if the end of training is known."""
_OF_FIT = 0.05
"""The minimum memory that each fit must leave behind, as a share of the smallest fit. This amounts to part of a model,
unlike a buffer that outlives fits."""
_FEW_EPOCHS = 10
"""The number of finished epochs at which epoch ends become more informative than readings within epochs."""
_EACH_FIT = 0.4
"""The minimum share of growth across two fits that each of them must cover."""
_LEAK_SOON_SECONDS, _LEAK_LASTING_SECONDS = 3600.0, 50 * 60.0
"""Growth whose training has no known end is reported early only if it will reach the limit within the first of these
times, in seconds, or has lasted for the second."""
_LARGE_STEPS = 1000
"""The number of steps that messages use as the unit for growth within epochs."""


@detector("memory-leak", every=10.0)
def leak(window: Window) -> Iterator[Finding]:
    """A tensor leak: the memory that TensorFlow's allocator has in use at the same point in each epoch keeps growing.

    The readings come from inside the training process. Two series are epoch ends, of one fit and of two consecutive
    fits. The third is the first epoch end of each `fit`, for models that are kept from one fit to the next. The last is
    readings within epochs, for epochs that take hours and leaks that take minutes. Only the latest process counts,
    since the memory of earlier ones has been freed. Growth counts as a leak once a buffer would almost certainly be
    full. It must have continued for 90 % of the training that was left, or have taken 80 % of the free memory (85 %
    within the first epoch, whose end may free it). If the end of training is unknown, it must have continued for 40
    epochs in two fits, or have lasted three hours and taken 20 % of the free memory. Growth from fit to fit counts as a
    leak after 40 fits, or after ten that each leave 5 % of the smallest behind. For kept models, five that each add the
    same amount are enough, or eight of any size. Before that, growth is reported as a notice if it would reach the
    limit before training ends or, if the end is unknown, has continued for 50 minutes. Thresholds: measured on the
    development families of benchmarks/leak_set.
    """
    if is_being_named(window):
        return
    limit, room, notices = window.newest.training.get("allocator_limit_bytes"), None, []
    for series in series_of(window):
        room = None if limit is None else max(limit - series.baselines[-1].bytes_in_use, 0.0)
        growth = steady_growth(series.settled, _GATES[series.unit])
        if growth is not None and _is_leak(growth, series, room):
            yield _leak_finding(window, growth, series)
            return
        few = _few_rises(series, room)
        if few is not None:
            yield _leak_finding(window, few, series)
            return
        if growth is not None and series.is_whole and _is_worth_a_notice(growth, series, room):
            notices.append(_possible_leak(window, growth, series))
    if not needs_no_hedge(window.cause, room):
        yield from notices[:1]


def _is_leak(growth: Growth, series: Series, room: float | None) -> bool:
    """True if the growth is too large or too long for a buffer that is filling up."""
    share, length = share_of_room(growth.grown, room), growth.end - growth.begin
    if share >= (_LEAK_OF_ROOM if series.is_whole else _OF_ROOM_IN_AN_EPOCH):
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
    enough = room is None or share >= _LEAK_LEAST_OF_ROOM
    return enough and series.ended < _FEW_EPOCHS and seconds >= _STEPS_SECONDS


def _few_rises(series: Series, room: float | None) -> Growth | None:
    """Find growth that has too few readings for a trend, but rises evenly, or return None."""
    if series.kind == "fits":
        return kept_models(series, _MIB)
    growth = even_rises(series.points, _LAST_RISES, _MIB) if series.kind == "epochs" else None
    if growth is None:
        return None
    rises, planned = growth.readings - 1, series.planned
    is_last = room is not None and room < growth.rate
    takes_room = rises >= _RISES_OF_ROOM and share_of_room(growth.grown, room) >= _LEAK_OF_ROOM
    takes_plan = planned is not None and takes_most_of_the_plan(growth.begin, growth.end, planned)
    return growth if is_last or takes_room or (takes_plan and rises >= _RISES_OF_PLAN) else None


def _is_worth_a_notice(growth: Growth, series: Series, room: float | None) -> bool:
    """True if the growth is worth a notice.

    Memory would run out before training ends or, if the end is unknown, would run out soon or has been growing for a
    long time.
    """
    if room is None:
        return False
    units = room / growth.rate
    if series.planned is not None:
        return growth.end + units <= series.planned
    lasted = (growth.end - growth.begin) * series.seconds_per_unit
    return units * series.seconds_per_unit <= _LEAK_SOON_SECONDS or lasted >= _LEAK_LASTING_SECONDS


def _possible_leak(window: Window, growth: Growth, series: Series) -> Finding:
    """Return the notice for growth that does not yet count as a leak."""
    found = _leak_finding(window, growth, series)
    message = f"{found.message}, unless it is only filling a buffer"
    return replace(found, message=message, severity="notice", kind="filling")


def _leak_finding(window: Window, growth: Growth, series: Series) -> Finding:
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
    finding = Finding(
        fault="memory-leak",
        subject=HOST if limit is None else TENSORS,  # without a GPU, tensors are part of the host's memory
        message=f"tensor memory is growing by {_rate(growth.rate, unit)}{outlook.text}",
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
    return named(finding, window.cause)


def _rate(rate: float, unit: str) -> str:
    if unit == "step":
        return f"{amount(rate * _LARGE_STEPS)} every {_LARGE_STEPS:,} steps"
    return f"{amount(rate)} {'an' if unit == 'epoch' else 'a'} {unit}"


_GROWING_GATES = Gates(readings=16, least_bytes=96 * _MIB, still=0.94, straight=20.0)
_GROWING_OF_ROOM = 0.8
"""The minimum share of the free memory that growth must take to count as a leak."""
_GROWING_SECONDS, _GROWING_LEAST_OF_ROOM = 3 * 3600.0, 0.2
"""The minimum growth that counts as a leak if the end of the fit is unknown: in seconds, and as a share of the free
memory."""
_GROWING_PLANNED_SECONDS = 10 * 60.0
"""The minimum time, in seconds, that growth must last if the end of the fit is known."""
_OF_ROOM_SECONDS = 4 * 60.0
_EARLY_SECONDS = 5 * 60.0
_NEAR_SECONDS, _GROWING_LASTING_SECONDS = 20 * 60.0, 50 * 60.0
"""Growth that does not yet count as a leak is reported if it will reach the limit within the first of these times, in
seconds, or if the end of the fit is unknown and it has lasted for the second."""
_FAR_SECONDS = 7 * 86400.0
"""The maximum time to the limit, in seconds. Growth that would take more than a week is not reported."""
_START_SECONDS = 120.0
"""The time, in seconds, for imports, loading data and the first step, whose memory does not count as growth."""


@detector("memory-leak", every=60.0)
def growing(window: Window) -> Iterator[Finding]:
    """Memory that grows, as seen from outside the process: the script's resident memory, and its memory on each GPU.

    From outside, a buffer that is filling up looks like a leak until it stops. Growth therefore counts as a leak only
    once it has taken 80 % of the memory that was free, or has continued for 90 % of the rest of the fit. If the end of
    the fit is unknown, growth counts as a leak once it has lasted three hours and taken 20 % of the free memory. Before
    that, it only raises a notice, if the limit is near or after 50 minutes of growth. The entire run is examined,
    because the last hour of a curve that levels off looks straight. Thresholds: measured on the development families of
    benchmarks/leak_set. TensorFlow's pool on a GPU hides leaks, since it is allocated all at once or grows by doubling;
    `leak` looks inside it.
    """
    if is_being_named(window):
        return
    newest = window.newest
    host = newest.host
    room = host.get("memory_total_bytes", 0.0) - host.get("memory_used_bytes", 0.0)
    for found in _growth_of(newest, HOST, "the script's memory", window.resident, room if host else None):
        if found.kind != "filling" or not needs_no_hedge(window.cause, room if host else None):
            yield named(found, window.cause)
    for gpu in window.gpus():
        values = gpu.values
        room = values.get("memory_total_bytes", 0.0) - values.get("memory_used_bytes", 0.0)
        name, points = f"GPU {gpu.index}", window.held(gpu.uuid)
        yield from _growth_of(newest, name, f"the script's memory on {name}", points, room if values else None)


def _growth_of(
    newest: Sample, subject: str, what: str, points: Sequence[Point], room: float | None
) -> Iterator[Finding]:
    """Yield the finding for a leak, or for growth that is near the limit."""
    points = [point for point in points if point[0] >= points[0][0] + _START_SECONDS]
    growth = steady_growth(points, _GROWING_GATES)
    if growth is None:
        return
    remaining = remaining_seconds(newest.training)
    outlook = Outlook(growth.rate, None if room is None else max(room, 0.0), 1.0, remaining=remaining)
    seconds, left = growth.end - growth.begin, outlook.seconds
    if _is_growing_leak(growth, outlook) and (left is None or left <= _FAR_SECONDS):
        yield _growth_finding(subject, what, growth, outlook)
    elif left is not None and seconds >= _EARLY_SECONDS and left <= _soon(outlook, seconds):
        yield replace(
            _growth_finding(subject, f"{what} may only be filling up: it", growth, outlook),
            severity="notice",
            kind="filling",
        )


def _soon(outlook: Outlook, lasted: float) -> float:
    """Return the time to the limit, in seconds, within which a notice is due: at least the rest of the fit if known."""
    if outlook.remaining is None:
        return _FAR_SECONDS if lasted >= _GROWING_LASTING_SECONDS else _NEAR_SECONDS
    return max(outlook.remaining, _NEAR_SECONDS)


def _is_growing_leak(growth: Growth, outlook: Outlook) -> bool:
    """True if the growth is too large or too long for a buffer that is filling up."""
    seconds = growth.end - growth.begin
    if seconds >= _OF_ROOM_SECONDS and share_of_room(growth.grown, outlook.room) >= _GROWING_OF_ROOM:
        return True
    if outlook.remaining is None:
        enough = outlook.room is None or share_of_room(growth.grown, outlook.room) >= _GROWING_LEAST_OF_ROOM
        return enough and seconds >= _GROWING_SECONDS
    return seconds >= _GROWING_PLANNED_SECONDS and takes_most_of_the_plan(0.0, seconds, seconds + outlook.remaining)


def _growth_finding(subject: str, what: str, growth: Growth, outlook: Outlook) -> Finding:
    evidence = {
        "bytes_per_second": round(growth.rate),
        "grown_bytes": round(growth.grown),
        "since": growth.begin,
        "until": growth.end,
        **outlook.evidence,
    }
    message = f"{what} is growing by {amount(growth.rate * 60)} a minute{outlook.text}"
    return Finding("memory-leak", subject, message, outlook.severity, evidence)


_KEPT_EVEN_RISES = 4
"""The minimum number of even rises between fits that do the same work: five folds."""
_KEPT_RISES, _KEPT_OF_FITS = 7, 0.75
"""The minimum number of rises between fits of any kind, and their minimum share of all transitions between fits."""
_KEPT_RISE = 0.05
"""The minimum rise, as a share of the smallest fit."""
_KEPT_GROWN = 2.0
"""The minimum growth, in multiples of the smallest fit: more than a single larger model can explain."""
_KEPT_BYTES = 32 * _MIB
"""The minimum growth in bytes for fits of any kind. TensorFlow may leave 1 MiB behind after a fit that frees its model
(measured)."""


def kept_models(fits: Series, least_bytes: float) -> Growth | None:
    """Find growth caused by models that each fit of a search or cross-validation leaves behind, or return None.

    Each fold trains the same model, so each kept model adds the same amount. The models of a search differ in size:
    memory may even fall from one to the next, but nearly every kept model raises it permanently. The rises do not keep
    increasing, as they do with a model that is made larger for each fit. In a search that frees its models, this
    happens only by chance: for ten models in random order, in one case out of 4,000.
    """
    even = even_rises(fits.points, _KEPT_EVEN_RISES, least_bytes)
    if even is not None and even.begin >= fits.again - 1:
        return even
    found = (_for_good(fits, first) for first in range(3))  # the first ones may include one-time allocations
    return next((growth for growth in found if growth is not None), None)


def _for_good(fits: Series, first: int) -> Growth | None:
    points = fits.points[first:]
    if len(points) <= _KEPT_RISES:
        return None
    smallest = min(value for _, value in points)
    rises = rises_for_good(points, max(_KEPT_RISE * smallest, 1.0))
    grown, length = points[-1][1] - points[0][1], points[-1][0] - points[0][0]
    if rises < max(_KEPT_RISES, _KEPT_OF_FITS * (len(points) - 1)) or grown < max(_KEPT_GROWN * smallest, _KEPT_BYTES):
        return None
    rises_now = points[-1][1] > points[-3][1] and not _each_is_larger(points)
    return Growth(grown / length, grown, points[0][0], points[-1][0], len(points), True) if rises_now else None


def _each_is_larger(points: Sequence[Point]) -> bool:
    """True if each rise is larger than the one before, as with a model that is enlarged for each fit, but not kept."""
    rises = [after - before for (_, before), (_, after) in pairwise(points)]
    return all(after > before for before, after in pairwise(rises))


_OF_PLAN = 0.9
"""The minimum share of the remaining training that growth must last. Buffers usually fill within a third or half of
it."""
_LEAST_OF_PLAN = 0.25
"""The minimum share of the whole training that growth must last, however little remains."""


def takes_most_of_the_plan(begin: float, now: float, planned: float) -> bool:
    """True if growth since `begin` has lasted for most of the training that remained until `planned`.

    The arguments are positions, as in the readings. A buffer that is filling up looks like a leak until it stops, and
    its readings do not reveal when that will be. But a deliberate buffer fills up well before training ends, and leaves
    some memory free. That is not true of growth that has continued for most of the remaining training, or has taken
    most of the memory that was free.
    """
    return now - begin >= max(_OF_PLAN * (planned - begin), _LEAST_OF_PLAN * planned)
