"""Window: the last samples, as detectors look at them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile

from oomph.monitor.sample import Baseline, GpuSample, Sample

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

    def append(self, sample: Sample) -> None:
        """Add the newest sample and drop what is too old."""
        self._samples.append(sample)
        for baseline in sample.baselines:
            _keep(self._ends if baseline.epoch else self._within, baseline)
        while self._samples[0].time < sample.time - self._seconds:
            self._samples.popleft()

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

    def last(self, seconds: float) -> list[Sample]:
        """The samples of the last `seconds`, oldest first."""
        begin = self.newest.time - seconds
        return list(takewhile(lambda sample: sample.time >= begin, reversed(self._samples)))[::-1]

    def series(self, uuid: str, key: str, seconds: float) -> list[tuple[float, float]]:
        """(time, value) of a GPU's metric wherever it was measured."""
        pairs = ((sample.time, _value(sample, uuid, key)) for sample in self.last(seconds))
        return [(time, value) for time, value in pairs if value is not None]

    def gpus(self) -> Iterator[GpuSample]:
        """The GPUs of the newest sample."""
        yield from self.newest.gpus


def _keep(baselines: list[Baseline], newest: Baseline) -> None:
    baselines.append(newest)
    if len(baselines) > _MOST_BASELINES:
        del baselines[1 : _MOST_BASELINES // 2 : 2]


def _value(sample: Sample, uuid: str, key: str) -> float | None:
    return next((gpu.values.get(key) for gpu in sample.gpus if gpu.uuid == uuid), None)
