"""Window: the last samples, as detectors look at them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile

from oomph.monitor.arrivals import Arrival, Arrivals
from oomph.monitor.growth import Point
from oomph.monitor.history import History
from oomph.monitor.sample import Baseline, GpuSample, Sample, Values

SECONDS = 3600.0
"""How much of the past a window holds; baselines are kept for all of the run."""
_MOST_BASELINES = 2048
"""Of ends of epochs, and as many from within: when there are more, every second of the older half is dropped."""


class Window:
    """The samples of the last hour, newest last. Appending is its only change."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[Sample] = deque()
        self._ends: list[Baseline] = []
        self._within: list[Baseline] = []
        self._first: dict[str, dict[str, float]] = {}
        self._latest: dict[str, dict[str, float]] = {}
        self._arrivals: dict[str, Arrivals] = {}
        self._resident = History()
        self._held: dict[str, History] = {}

    def append(self, sample: Sample) -> None:
        """Add the newest sample and drop what is too old."""
        self._samples.append(sample)
        for baseline in sample.baselines:
            _keep(self._ends if baseline.epoch else self._within, baseline)
        if "resident_bytes" in sample.process:
            self._resident.add(sample.time, sample.process["resident_bytes"])
        for gpu in sample.gpus:
            held = _held_by_script(gpu)
            if held is not None:
                self._held.setdefault(gpu.uuid, History()).add(sample.time, held)
            if gpu.processes is not None:
                used = gpu.values.get("memory_used_bytes")
                self._arrivals.setdefault(gpu.uuid, Arrivals()).take(sample.time, gpu.processes, used)
            if gpu.values:
                self._note(gpu)
        while self._samples[0].time < sample.time - self._seconds:
            self._samples.popleft()

    def _note(self, gpu: GpuSample) -> None:
        first = self._first.setdefault(gpu.uuid, {})
        if not gpu.values.keys() <= first.keys():
            first.update({key: value for key, value in gpu.values.items() if key not in first})
        self._latest.setdefault(gpu.uuid, {}).update(gpu.values)

    @property
    def newest(self) -> Sample:
        """The newest sample; raises IndexError if there is none."""
        return self._samples[-1]

    @property
    def ends_of_epochs(self) -> Sequence[Baseline]:
        """The baselines of ends of epochs, oldest first."""
        return self._ends

    @property
    def within_epochs(self) -> Sequence[Baseline]:
        """The baselines from within epochs, oldest first."""
        return self._within

    @property
    def resident(self) -> Sequence[Point]:
        """The script's resident memory since the run began, oldest first."""
        return self._resident.points

    def held(self, uuid: str) -> Sequence[Point]:
        """What the script's processes hold of a GPU since the run began, wherever the driver says it."""
        return self._held[uuid].points if uuid in self._held else ()

    def last(self, seconds: float) -> list[Sample]:
        """The samples of the last `seconds`, oldest first."""
        begin = self.newest.time - seconds
        return list(takewhile(lambda sample: sample.time >= begin, reversed(self._samples)))[::-1]

    def ago(self, seconds: float) -> Sample:
        """The newest sample that is at least `seconds` older than the newest; the oldest one if none is."""
        place = bisect_right(self._samples, self.newest.time - seconds, key=lambda sample: sample.time)
        return self._samples[max(place - 1, 0)]

    @property
    def has_seen_gpus(self) -> bool:
        """Whether any GPU was measured since the run began."""
        return bool(self._latest)

    def latest(self, uuid: str) -> Values:
        """The newest value of each metric of a GPU: those that change slowly are not in every sample."""
        return self._latest.get(uuid, {})

    def first(self, uuid: str) -> Values:
        """The first value of each metric of a GPU, from when the run began."""
        return self._first.get(uuid, {})

    def arrival(self, uuid: str, pid: int) -> Arrival | None:
        """When a process came to a GPU; None if it was in the first list, or is not in the newest."""
        return self._arrivals[uuid].of(pid) if uuid in self._arrivals else None

    def values(self, uuid: str, seconds: float) -> Iterator[tuple[float, Values]]:
        """(time, values) of a GPU in the last `seconds`, wherever it was measured, oldest first."""
        place = 0
        for sample in self.last(seconds):
            gpus = sample.gpus
            if place >= len(gpus) or gpus[place].uuid != uuid:  # it is nearly always where it was
                place = next((number for number, gpu in enumerate(gpus) if gpu.uuid == uuid), len(gpus))
            if place < len(gpus) and gpus[place].values:
                yield sample.time, gpus[place].values

    def series(self, uuid: str, key: str, seconds: float) -> list[tuple[float, float]]:
        """(time, value) of a GPU's metric wherever it was measured."""
        return [(time, values[key]) for time, values in self.values(uuid, seconds) if key in values]

    def gpus(self) -> Iterator[GpuSample]:
        """The GPUs of the newest sample."""
        yield from self.newest.gpus


def _held_by_script(gpu: GpuSample) -> float | None:
    """What the script's processes hold of a GPU; None where the driver was not asked, or does not say."""
    own = [each.memory_bytes for each in gpu.processes or () if each.own]
    sizes = [size for size in own if size is not None]
    return float(sum(sizes)) if own and len(sizes) == len(own) else None


def _keep(baselines: list[Baseline], newest: Baseline) -> None:
    baselines.append(newest)
    if len(baselines) > _MOST_BASELINES:
        del baselines[1 : _MOST_BASELINES // 2 : 2]
