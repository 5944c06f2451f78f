"""Turns the baselines of a training run into comparable series: by epoch, across two fits, by fit, by step. Pure.

Only the latest process counts, since the memory of earlier ones has been freed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from oomph.monitor.growth import Point
from oomph.monitor.sample import Baseline, Values
from oomph.monitor.window import Window

_WARM_UP = 2
"""The number of warm-up epochs or fits, during which slots, caches and graphs are created."""
_MOST = 256
"""The maximum number of readings in a series: more would cost time and add nothing."""
_EPOCHS = 1.1
"""The minimum number of epochs that the readings must span: memory may fill up during one epoch and be freed when the
next starts."""
_SAME_PACE = 1.5
"""The largest ratio between the paces of two fits that count as doing the same work on the same machine."""

_Fits = Sequence[Sequence[Baseline]]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Series:
    """Comparable baselines, each with its position: an epoch, a fit or a step."""

    kind: Literal["epochs", "across fits", "fits", "steps"]
    baselines: Sequence[Baseline]
    places: Sequence[float]
    planned: float | None = None
    """The position at which training ends, or None if unknown."""
    again: float = 0
    """The position at which the second of two fits starts, or from which all fits do the same work."""
    ended: int = 0
    """The number of epochs that the fit has finished."""
    is_whole: bool = True
    """False if all readings come from a single epoch: memory that fills up during it may be freed when it ends."""

    @property
    def unit(self) -> Literal["epoch", "fit", "step"]:
        return "fit" if self.kind == "fits" else "step" if self.kind == "steps" else "epoch"

    @property
    def points(self) -> list[Point]:
        return [(place, each.bytes_in_use) for place, each in zip(self.places, self.baselines, strict=True)]

    @property
    def settled(self) -> list[Point]:
        """The points without the warm-up."""
        return self.points if self.kind == "steps" else self.points[_WARM_UP:]

    @property
    def seconds_per_unit(self) -> float:
        return (self.baselines[-1].time - self.baselines[0].time) / (self.places[-1] - self.places[0])


def series_of(window: Window) -> Iterator[Series]:
    """Yield the series to compare, the most informative first."""
    fits, training = _fits(window.ends_of_epochs), window.newest.training
    steps = _steps(fits, _of_newest_process(window.within_epochs), training)
    for series in (_epochs(fits, training), _across_fits(fits), _by_fit(fits), steps):
        if len(series.baselines) > 1:
            yield series


def _epochs(fits: _Fits, training: Values) -> Series:
    """Return the series of epoch ends in the latest fit."""
    ends = _thin(fits[-1]) if fits else []
    return Series("epochs", ends, [each.epoch for each in ends], training.get("epochs"))


def _across_fits(fits: _Fits) -> Series:
    """Return the series of epoch ends in the latest two fits, in order."""
    ends = [each for fit in fits[-2:] for each in fit] if len(fits) > 1 else []
    places = _thin(range(len(ends)))
    return Series("across fits", [ends[place] for place in places], places, again=len(fits[-2]) if ends else 0)


def _by_fit(fits: _Fits) -> Series:
    """Return the series of the first epoch end in each fit."""
    places = _thin(range(len(fits)))
    return Series("fits", [fits[place][0] for place in places], places, again=_repeats_from(fits))


def _repeats_from(fits: _Fits) -> int:
    """Return the index of the first fit in the latest stretch whose first epochs match in steps and roughly in pace."""
    paces = [(fit[0].step - before[-1].step, fit[0].time - before[-1].time) for before, fit in pairwise(fits)]
    first = len(paces)
    while first and _are_alike(paces[first - 1], paces[-1]):
        first -= 1
    return first + 1


def _are_alike(one: tuple[int, float], other: tuple[int, float]) -> bool:
    return one[0] == other[0] and max(one[1], other[1]) <= _SAME_PACE * min(one[1], other[1])


def _steps(fits: _Fits, within: Sequence[Baseline], training: Values) -> Series:
    """Return the series of readings taken within epochs of the latest fit."""
    begin = fits[-2][-1].step if len(fits) > 1 else -1
    readings = [each for each in within if each.step > begin]
    ends = fits[-1] if fits and readings and fits[-1][0].step > readings[0].step else []
    told, is_whole = _thin(readings), _tell_enough(readings, ends, training)
    planned = _last_step(ends, max(begin, 0), training)
    return Series("steps", told, [each.step for each in told], planned, ended=len(ends), is_whole=is_whole)


def _tell_enough(readings: Sequence[Baseline], ends: Sequence[Baseline], training: Values) -> bool:
    """True if the readings span several epochs, each of which may refill memory, or if there is only one epoch."""
    if not readings or not ends:
        return training.get("epochs", 1) == 1
    return readings[-1].step - readings[0].step >= _EPOCHS * (ends[0].step - readings[0].step)


def _last_step(ends: Sequence[Baseline], begin: int, training: Values) -> float | None:
    """Return the number of the final step of the fit that started after step `begin`, or None if unknown."""
    epochs, each = training.get("epochs"), training.get("steps_per_epoch") or _steps_of_an_epoch(ends, begin)
    if epochs is None or each is None:
        return None
    return ends[-1].step + (epochs - ends[-1].epoch) * each if ends else begin + epochs * each


def _steps_of_an_epoch(ends: Sequence[Baseline], begin: int) -> float | None:
    if ends and ends[0].epoch == 1:
        return (ends[-1].step - begin) / ends[-1].epoch
    return (ends[-1].step - ends[0].step) / (ends[-1].epoch - ends[0].epoch) if len(ends) > 1 else None


def _fits(ends: Sequence[Baseline]) -> list[list[Baseline]]:
    """Group the epoch ends by fit. A new fit starts wherever the epoch number does not increase."""
    fits: list[list[Baseline]] = []
    for each in _of_newest_process(ends):
        if fits and each.epoch > fits[-1][-1].epoch:
            fits[-1].append(each)
        else:
            fits.append([each])
    return fits


def _of_newest_process(baselines: Sequence[Baseline]) -> list[Baseline]:
    return [each for each in baselines if each.process == baselines[-1].process]


def _thin(items: Sequence[_Item]) -> Sequence[_Item]:
    """Return every n-th item, so that at most `_MOST` remain. The latest is always kept."""
    every = -(-len(items) // _MOST) or 1
    return items[(len(items) - 1) % every :: every]
