"""The window: the latest samples, as detectors see them, and the data kept from the whole run. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeVar

from oomph.monitor.census import Census
from oomph.monitor.growth import Point
from oomph.monitor.leak_cause import LeakCause, ProcessGrowth, cause_of
from oomph.monitor.sample import Baseline, GpuProcess, GpuSample, Sample, ScriptProcess, Values

SECONDS = 3600.0
"""The length of a window in seconds. Baselines are kept for the whole run."""
_MOST_BASELINES = 2048
"""The maximum number of baselines to keep for epoch ends, and also for readings within epochs. Beyond it, every second
one in the older half is dropped. The same holds for censuses and for readings of a process's share."""
_MOST_CENSUSES, _MOST_SHARES = 48, 256
_Item = TypeVar("_Item")


class Window:
    """The samples of the last hour, newest last. A window changes only when a sample is appended."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[Sample] = deque()
        self._ends: list[Baseline] = []
        self._within: list[Baseline] = []
        self._first: dict[str, dict[str, float]] = {}
        self._latest: dict[str, dict[str, float]] = {}
        self._arrivals: dict[str, ProcessArrivals] = {}
        self._resident = History()
        self._held: dict[str, History] = {}
        self._censuses: list[Census] = []
        self._shares: dict[int, tuple[ScriptProcess, list[Point]]] = {}
        self._cause: LeakCause | None = None
        self._is_cause_known = True

    def append(self, sample: Sample) -> None:
        """Add the newest sample and drop those that are too old."""
        self._samples.append(sample)
        for baseline in sample.baselines:
            _keep(self._ends if baseline.epoch else self._within, baseline, _MOST_BASELINES)
        if "resident_bytes" in sample.process:
            self._resident.add(sample.time, sample.process["resident_bytes"])
        if sample.census is not None:
            self._count(sample.census)
        if sample.processes:
            self._share(sample)
        for gpu in sample.gpus:
            held = _held_by_script(gpu)
            if held is not None:
                self._held.setdefault(gpu.uuid, History()).add(sample.time, held)
            if gpu.processes is not None:
                used = gpu.values.get("memory_used_bytes")
                self._arrivals.setdefault(gpu.uuid, ProcessArrivals()).take(sample.time, gpu.processes, used)
            if gpu.values:
                self._note(gpu)
        while self._samples[0].time < sample.time - self._seconds:
            self._samples.popleft()

    def _count(self, census: Census) -> None:
        if self._censuses and self._censuses[-1].process != census.process:
            self._censuses.clear()
        _keep(self._censuses, census, _MOST_CENSUSES)
        self._is_cause_known = False

    def _share(self, sample: Sample) -> None:
        known, self._shares = self._shares, {}
        for process in sample.processes:
            _, points = known.get(process.pid, (process, []))
            _keep(points, (sample.time, float(process.memory_bytes)), _MOST_SHARES)
            self._shares[process.pid] = process, points
        self._is_cause_known = False

    def _note(self, gpu: GpuSample) -> None:
        first = self._first.setdefault(gpu.uuid, {})
        if not gpu.values.keys() <= first.keys():
            first.update({key: value for key, value in gpu.values.items() if key not in first})
        self._latest.setdefault(gpu.uuid, {}).update(gpu.values)

    @property
    def newest(self) -> Sample:
        """The newest sample. Raises IndexError if there is none."""
        return self._samples[-1]

    @property
    def ends_of_epochs(self) -> Sequence[Baseline]:
        """The baselines taken at epoch ends, oldest first."""
        return self._ends

    @property
    def within_epochs(self) -> Sequence[Baseline]:
        """The baselines taken within epochs, oldest first."""
        return self._within

    @property
    def resident(self) -> Sequence[Point]:
        """The script's resident memory since the run began, as (time, bytes), oldest first."""
        return self._resident.points

    @property
    def censuses(self) -> Sequence[Census]:
        """The censuses of the latest process, oldest first."""
        return self._censuses

    @property
    def cause(self) -> LeakCause | None:
        """The cause of growth in the script's memory, or None if too little is known."""
        if not self._is_cause_known:
            shares = [ProcessGrowth(one.pid, one.name, one.is_script, points) for one, points in self._shares.values()]
            self._cause, self._is_cause_known = cause_of(self._censuses, shares), True
        return self._cause

    def held(self, uuid: str) -> Sequence[Point]:
        """Return the memory held on a GPU by the script's processes since the run began, as (time, bytes).

        The oldest reading comes first. The result is empty if the driver does not report it.
        """
        return self._held[uuid].points if uuid in self._held else ()

    def last(self, seconds: float) -> list[Sample]:
        """Return the samples of the last `seconds`, oldest first."""
        begin = self.newest.time - seconds
        return list(takewhile(lambda sample: sample.time >= begin, reversed(self._samples)))[::-1]

    def ago(self, seconds: float) -> Sample:
        """Return the latest sample that is at least `seconds` older than the newest, or the oldest if there is none."""
        place = bisect_right(self._samples, self.newest.time - seconds, key=lambda sample: sample.time)
        return self._samples[max(place - 1, 0)]

    @property
    def has_seen_gpus(self) -> bool:
        """True if any GPU has returned values since the run began."""
        return bool(self._latest)

    def latest(self, uuid: str) -> Values:
        """Return the latest value of each metric of a GPU. Slowly changing metrics are not in every sample."""
        return self._latest.get(uuid, {})

    def first(self, uuid: str) -> Values:
        """Return the first value that each metric of a GPU had in the run."""
        return self._first.get(uuid, {})

    def arrival(self, uuid: str, pid: int) -> ProcessArrival | None:
        """Return the arrival of a process at a GPU, or None if it was in the first list or is not in the latest."""
        return self._arrivals[uuid].of(pid) if uuid in self._arrivals else None

    def values(self, uuid: str, seconds: float) -> Iterator[tuple[float, Values]]:
        """Yield a GPU's measured readings from the last `seconds` as (time, values), oldest first."""
        place = 0
        for sample in self.last(seconds):
            gpus = sample.gpus
            if place >= len(gpus) or gpus[place].uuid != uuid:  # its index nearly always stays the same
                place = next((number for number, gpu in enumerate(gpus) if gpu.uuid == uuid), len(gpus))
            if place < len(gpus) and gpus[place].values:
                yield sample.time, gpus[place].values

    def series(self, uuid: str, key: str, seconds: float) -> list[tuple[float, float]]:
        """Return the readings of a GPU's metric from the last `seconds` as (time, value), oldest first."""
        return [(time, values[key]) for time, values in self.values(uuid, seconds) if key in values]

    def gpus(self) -> Iterator[GpuSample]:
        """Yield the GPUs of the newest sample, except lost ones: of those, only the loss is reported."""
        yield from (gpu for gpu in self.newest.gpus if not gpu.is_lost)


def _held_by_script(gpu: GpuSample) -> float | None:
    """Return the bytes that the script's processes hold on a GPU, or None if not requested, or not reported for all."""
    own = [each.memory_bytes for each in gpu.processes or () if each.own]
    sizes = [size for size in own if size is not None]
    return float(sum(sizes)) if own and len(sizes) == len(own) else None


def _keep(kept: list[_Item], newest: _Item, most: int) -> None:
    kept.append(newest)
    if len(kept) > most:
        del kept[1 : most // 2 : 2]


_COMING_SECONDS = 60.0
"""The time, in seconds, that a new process has to allocate memory. The script must also have been listed this
recently."""


@dataclass(frozen=True)
class ProcessArrival:
    """The arrival of a process at a GPU."""

    time: float
    """The Unix time when the process was first listed."""
    to_the_script: bool
    """True if one of the script's processes was listed on the GPU shortly before."""
    used_before: float | None
    """The GPU memory in use at the previous listing, in bytes, or None if not measured."""
    used_most: float | None = None
    """The peak memory in use, in bytes, while the process may have been allocating."""

    @property
    def rise_bytes(self) -> float:
        """The increase in memory use after the process arrived, in bytes."""
        return 0.0 if self.used_before is None or self.used_most is None else self.used_most - self.used_before


class ProcessArrivals:
    """Tracks the processes that arrive at a GPU while it is watched, and the memory that each one takes on arrival.

    Processes are listed only every ten seconds, and some drivers do not report how much memory each one holds.
    """

    def __init__(self) -> None:
        self._here: dict[int, ProcessArrival | None] = {}
        self._own_at = float("-inf")
        self._used: float | None = None
        self._is_first = True

    def take(self, now: float, processes: Sequence[GpuProcess], used: float | None) -> None:
        """Add the next list of processes. `used` is the GPU memory in use, in bytes."""
        beside = 0 <= now - self._own_at <= _COMING_SECONDS
        came = None if self._is_first else ProcessArrival(now, beside, self._used)
        listed = {each.pid: self._here.get(each.pid, came) for each in processes}
        self._here = {pid: None if arrival is None else _grown(arrival, now, used) for pid, arrival in listed.items()}
        if any(each.own for each in processes):
            self._own_at = now
        self._used, self._is_first = used, False

    def of(self, pid: int) -> ProcessArrival | None:
        """Return the arrival of a process in the latest list, or None if it was already in the first."""
        return self._here.get(pid)


def _grown(arrival: ProcessArrival, now: float, used: float | None) -> ProcessArrival:
    if used is None or now - arrival.time > _COMING_SECONDS:
        return arrival
    return replace(arrival, used_most=max(used, arrival.used_most or 0.0))


_FLOOR_SECONDS = 20.0
"""The interval, in seconds, from which only the lowest reading is kept, since garbage and batches in flight come and
go."""
_MOST_POINTS = 1024
"""The maximum number of points to keep. Beyond it, every second one in the older half is dropped."""


class History:
    """The lowest readings of a quantity since the run began, thinned out as they age. Append-only.

    A window's single hour is not enough, since the last hour of a curve that levels off looks straight.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._begin = float("-inf")

    def add(self, time: float, value: float) -> None:
        """Add the newest reading."""
        if self._points and 0 <= time - self._begin < _FLOOR_SECONDS:
            self._points[-1] = min(self._points[-1], (time, value), key=lambda point: point[1])
            return
        self._begin = time
        self._points.append((time, value))
        if len(self._points) > _MOST_POINTS:
            del self._points[1 : _MOST_POINTS // 2 : 2]

    @property
    def points(self) -> Sequence[Point]:
        """The kept readings as (time, value), oldest first."""
        return self._points
