"""A leak of tensors: what TensorFlow's allocator holds at the same point of each epoch keeps growing. Pure.

The readings come from within the training process. Three series are looked at: ends of epochs; the first end of an
epoch of each `fit`, for models that are kept from one to the next; and readings within epochs, for epochs that take
hours. Only the newest process counts: the one before took its memory with it. Thresholds: measured on the development
half of benchmarks/leak_set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from oomph.monitor.finding import Finding
from oomph.monitor.growth import Gates, Growth, steady_growth
from oomph.monitor.outlook import Outlook, amount, remaining_seconds
from oomph.monitor.sample import Baseline
from oomph.monitor.window import Window

FAULTS = ("memory-leak",)
EVERY = 30.0
SUBJECT = "TensorFlow's memory"
_WARM_UP = 2
"""Epochs, or fits, that are not looked at: slots, caches and graphs are made in them."""
_MIB = 1 << 20
_GATES = {
    "epoch": Gates(readings=10, least_bytes=_MIB),
    "fit": Gates(readings=10, least_bytes=_MIB),
    "step": Gates(readings=64, least_bytes=_MIB),
}
_STEPS_SECONDS = 25 * 60.0
"""Within epochs, a buffer or cache that is being filled looks like a leak; few take longer than this."""
_EPOCHS = 1.25
"""Within epochs, what is filled in each of them falls when the next one begins, so one has to have ended."""
_LARGE_STEPS = 1000
"""Growth within epochs is told for so many steps."""


def find(window: Window) -> Iterator[Finding]:
    """A leak, in terms of epochs, fits or steps: the first that shows it."""
    for look in (_of_epochs, _of_fits, _of_steps):
        series = look(window)
        growth = steady_growth(series.points, _GATES[series.unit])
        if growth is not None:
            yield _finding(window, growth, series)
            return


@dataclass(frozen=True)
class _Series:
    """Baselines that can be compared, and where each is told to be."""

    unit: Literal["epoch", "fit", "step"]
    baselines: Sequence[Baseline]
    places: Sequence[float]

    @property
    def points(self) -> list[tuple[float, float]]:
        return [(place, each.bytes_in_use) for place, each in zip(self.places, self.baselines, strict=True)]

    @property
    def seconds_per_unit(self) -> float:
        return (self.baselines[-1].time - self.baselines[0].time) / (self.places[-1] - self.places[0])


def _of_epochs(window: Window) -> _Series:
    fits = _fits(window.ends_of_epochs)
    baselines = fits[-1][_WARM_UP:] if fits else []
    return _Series("epoch", baselines, [each.epoch for each in baselines])


def _of_fits(window: Window) -> _Series:
    baselines = [fit[0] for fit in _fits(window.ends_of_epochs)][_WARM_UP:]
    return _Series("fit", baselines, range(len(baselines)))


def _of_steps(window: Window) -> _Series:
    fits = _fits(window.ends_of_epochs)
    begin = fits[-2][-1].step if len(fits) > 1 else -1
    baselines = [each for each in _of_newest_process(window.within_epochs) if each.step > begin]
    if baselines and not _tells_enough(baselines, fits, window.newest.training.get("epochs", 1)):
        baselines = []
    return _Series("step", baselines, [each.step for each in baselines])


def _tells_enough(baselines: Sequence[Baseline], fits: Sequence[Sequence[Baseline]], epochs: float) -> bool:
    """Whether readings within epochs cover what is filled in each epoch anew, and what is filled once."""
    if baselines[-1].time - baselines[0].time < _STEPS_SECONDS:
        return False
    ended = [fit[0] for fit in fits if fit[0].step > baselines[0].step]
    if not ended:
        return epochs == 1
    return baselines[-1].step - baselines[0].step >= _EPOCHS * (ended[-1].step - baselines[0].step)


def _fits(ends: Sequence[Baseline]) -> list[list[Baseline]]:
    """The ends of epochs of each fit; a fit begins where the number of the epoch does not rise."""
    fits: list[list[Baseline]] = []
    for each in _of_newest_process(ends):
        if fits and each.epoch > fits[-1][-1].epoch:
            fits[-1].append(each)
        else:
            fits.append([each])
    return fits


def _of_newest_process(baselines: Sequence[Baseline]) -> list[Baseline]:
    return [each for each in baselines if each.process == baselines[-1].process]


def _finding(window: Window, growth: Growth, series: _Series) -> Finding:
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
