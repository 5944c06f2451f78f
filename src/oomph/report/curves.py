"""Reads the samples of a run as curves on one time axis, thinned so that a day of them fits a page.

Each interval keeps its smallest and its largest value, in the order in which they occurred: a spike of one second is
still seen in a picture of a day. Only utilization is averaged. Step times are means between two readings of counters.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.monitor.metrics import Scope
from oomph.monitor.sample import Header
from oomph.monitor.store import COMPRESSED, newest, read_rows
from oomph.page.axis import is_plausible
from oomph.report.processes import OTHERS, SCRIPT, TOGETHER, Listing, key_of, largest, listing_of

INTERVALS = 720
"""The number of intervals into which a run is divided, each of which becomes at most two points of a curve."""
_SPAN_SECONDS = 1.0
"""The shortest interval: samples arrive once a second."""
_GAP_INTERVALS, _GAP_SECONDS = 3.0, 5.0
"""The time without a sample after which a curve is interrupted: so many intervals, and at least so many seconds."""
_MOST_GAPS = 1000
_GPU_KEYS = (
    "memory_used_bytes",
    "memory_total_bytes",
    "utilization_ratio",
    "temperature_celsius",
    "temperature_slowdown_celsius",
)
_KEYS: Mapping[Scope, tuple[str, ...]] = {
    "host": ("memory_used_bytes", "memory_total_bytes"),
    "process": ("resident_bytes",),
    "training": (
        "allocator_in_use_bytes",
        "allocator_peak_bytes",
        "allocator_limit_bytes",
        "recent_loss",
        "loss",
        "micro_batch",
    ),
}
_AVERAGED = "utilization_ratio"
"""The curve that is averaged over an interval: utilization jumps between 0 and 100 % from second to second."""
_COUNTERS = ("steps_total", "step_seconds_total", "input_wait_seconds_total", "examples_total")
_MOST_GPUS = 16
_PLAIN = 5
"""The number of values in a row that has nothing but measurements."""
_PROCESSES = "processes"
_LISTED_SECONDS = 12.0
"""The time for which a list of the script's processes holds: the next one follows after ten seconds."""

_NUMBERS = (int, float)
"""The classes of finite numbers in a row: NaN and infinity are text there, and bool is neither."""

Name = str | tuple[int, str]
"""The name of a curve while rows are read: "host.memory_used_bytes", or the index of a GPU and the key."""
Column = tuple[float | None, ...]
"""The values of one curve, with None where there is none."""


@dataclass(frozen=True)
class Curves:
    """The curves of a run."""

    times: tuple[float, ...] = ()
    """Unix times, in seconds, ascending."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Maps "host.memory_used_bytes", "gpu0.utilization_ratio" and so on to the values at these times."""
    gpus: Mapping[int, str] = field(default_factory=dict)
    """Maps the index of each GPU to its name."""
    samples: int = 0
    """The number of samples read."""
    interval: float = _SPAN_SECONDS
    """The length of an interval, in seconds."""
    means: Mapping[str, float] = field(default_factory=dict)
    """The true means of the step time and what belongs to it: each step counts once, however long it took."""
    went_back: bool = False
    """True if the clock was turned back during the run, so that parts of the curves overlap."""
    gaps: tuple[tuple[float, float], ...] = ()
    """The times without a sample between two of them, at most a thousand."""
    children: tuple[str, ...] = ()
    """The names of the script's children that have a curve of their own, the largest first."""

    @property
    def is_thinned(self) -> bool:
        """True if some intervals have more than one sample."""
        return self.interval > _SPAN_SECONDS


def read_curves(run_dir: Path, intervals: int = INTERVALS) -> Curves:
    """Read the samples of a run. Never raises: what cannot be read is left out."""
    thinning: _Thinning | None = None
    chosen: dict[int, _Chosen] = {}
    for header, row in read_rows(run_dir):
        at = row[0] if row else None
        if at.__class__ not in _NUMBERS or not is_plausible(at):
            continue
        if thinning is None:
            thinning = _Thinning(at, max((_end(run_dir, at) - at) / intervals, _SPAN_SECONDS))
        if id(header) not in chosen:
            chosen = {id(header): _Chosen(header)}
        try:
            thinning.add(at, row, chosen[id(header)])
        except (IndexError, TypeError, ValueError, AttributeError):
            continue  # not a sample
    return Curves() if thinning is None else thinning.curves()


def _end(run_dir: Path, begin: float) -> float:
    """Return when the samples end, at least about: it decides how they are thinned, and no more."""
    last = newest(run_dir)
    if last is not None and is_plausible(last.time):
        return last.time
    try:
        return os.stat(run_dir / COMPRESSED).st_mtime
    except OSError:
        return begin


class _Chosen:
    """The columns of a file that become curves."""

    def __init__(self, header: Header) -> None:
        columns = header.columns
        self._gpu = [(key, columns["gpu"].index(key)) for key in _GPU_KEYS if key in columns["gpu"]]
        self._rest = [
            (place, f"{scope}.{key}", columns[scope].index(key))
            for place, scope in enumerate(_KEYS, 2)
            for key in _KEYS[scope]
            if key in columns[scope]
        ]
        self._counters = [columns["training"].index(key) if key in columns["training"] else None for key in _COUNTERS]

    def collect(self, row: Sequence[Any], into: defaultdict[Name, list[float]]) -> None:
        """Add the value of each curve in this row. One call handles a whole row, because a day has 86,400 of them."""
        for gpu in row[1][:_MOST_GPUS]:
            index, values = gpu[0], gpu[3]
            known = len(values)
            for key, place in self._gpu:
                if place < known and (value := values[place]).__class__ in _NUMBERS:
                    into[index, key].append(value)
        for scope, name, place in self._rest:
            values = row[scope]
            if place < len(values) and (value := values[place]).__class__ in _NUMBERS:
                into[name].append(value)

    def counters(self, row: Sequence[Any]) -> tuple[float | None, ...]:
        """Return the counters of the training in this row."""
        values = row[4]
        return tuple(
            values[place] if place is not None and place < len(values) and values[place].__class__ in _NUMBERS else None
            for place in self._counters
        )


@dataclass
class _Interval:
    """The samples of one interval."""

    begin: float
    middle: float
    values: Mapping[Name, list[float]]
    counters: tuple[float | None, ...]
    """The last reading of the training's counters."""

    def points(self) -> Iterator[tuple[float, dict[str, float]]]:
        """Yield one point, or the smallest and the largest of each curve in the order in which they occurred."""
        named = {
            name if isinstance(name, str) else f"gpu{name[0]}.{name[1]}": each for name, each in self.values.items()
        }
        if all(len(values) == 1 for values in named.values()):
            yield self.begin, {name: values[0] for name, values in named.items()}
            return
        first, second = dict[str, float](), dict[str, float]()
        for name, values in named.items():
            if name.endswith(_AVERAGED):
                first[name] = second[name] = sum(values) / len(values)
                continue
            low, high = min(values), max(values)
            is_rising = values.index(low) <= values.index(high)
            first[name], second[name] = (low, high) if is_rising else (high, low)
        yield self.begin, first
        yield self.middle, second


class _Thinning:
    """Collects samples, interval by interval."""

    def __init__(self, begin: float, width: float) -> None:
        self._begin, self._width = begin, width
        self._now: defaultdict[Name, list[float]] = defaultdict(list)
        self._intervals: list[_Interval] = []
        self._place: int | None = None
        self._samples, self._latest, self._went_back = 0, 0.0, False
        self._gaps: list[tuple[float, float]] = []
        self._gpus: dict[int, str] = {}
        self._listings: list[tuple[defaultdict[Name, list[float]], Listing]] = []
        """Each list of the script's processes, with the values of the interval that it belongs to."""

    def add(self, at: float, row: Sequence[Any], chosen: _Chosen) -> None:
        """Add one sample. Raises TypeError, ValueError, IndexError or AttributeError if it is none."""
        more = row[_PLAIN] if len(row) > _PLAIN else {}
        listing = listing_of(listed) if (listed := more.get(_PROCESSES)) else None
        counters, place = chosen.counters(row), int((at - self._begin) // self._width)
        if place != self._place:
            self._place = place
            self._now = defaultdict(list)
            self._intervals.append(_Interval(at, at + self._width / 2, self._now, counters))
            self._name(row[1])
        chosen.collect(row, self._now)
        if listing is not None:
            self._listings.append((self._now, listing))
        self._intervals[-1].counters = counters
        if self._samples and at - self._latest > _GAP_SECONDS and len(self._gaps) < _MOST_GAPS:
            self._gaps.append((self._latest, at))
        self._samples += 1
        self._went_back |= at < self._latest - self._width
        self._latest = max(at, self._latest)

    def _name(self, gpus: Sequence[Any]) -> None:
        """Remember the names of the GPUs."""
        for gpu in gpus[:_MOST_GPUS]:
            if gpu[0] not in self._gpus and type(gpu[0]) is int and type(gpu[2]) is str:
                self._gpus[gpu[0]] = gpu[2]

    def curves(self) -> Curves:
        """Return the curves of all samples added so far."""
        children = largest(listing for _, listing in self._listings)
        for into, listing in self._listings:
            for key, held in listing.by_curve(children).items():
                into[key].append(held)
        rows: list[tuple[float, dict[str, float]]] = []
        before, waiting = -1.0, 0
        counted: tuple[float | None, ...] = ()
        totals: list[float | None] = [None] * len(_COUNTERS)
        for interval in sorted(self._intervals, key=lambda each: each.begin):
            if rows and interval.begin - before > max(_GAP_INTERVALS * self._width, _GAP_SECONDS):
                rows.append(((before + interval.begin) / 2, {}))
                counted, waiting = (), len(rows)
            before = interval.begin
            rows += interval.points()
            if not counted or interval.counters[0] != counted[0]:
                grown = _grown(counted, interval.counters)
                if grown[0]:
                    totals = [_sum(total, each) for total, each in zip(totals, grown, strict=True)]
                rates = _rates(grown)
                for _, values in rows[waiting:]:  # until a step ended, it had the time that it turned out to have
                    values.update(rates)
                counted, waiting = interval.counters, len(rows)
        if self._listings:
            _hold(rows, (SCRIPT, *map(key_of, children), OTHERS))
        names = sorted({name for _, values in rows for name, value in values.items() if value or name != OTHERS})
        return Curves(
            times=tuple(round(at, 2) for at, _ in rows),
            columns={name: tuple(values.get(name) for _, values in rows) for name in names},
            gpus=dict(sorted(self._gpus.items())),
            samples=self._samples,
            interval=self._width,
            means=_rates(totals),
            went_back=self._went_back,
            gaps=tuple(self._gaps),
            children=children,
        )


def _hold(rows: Sequence[tuple[float, dict[str, float]]], keys: Sequence[str]) -> None:
    """Keep the values of a list of processes until the next one is due. Later on, the script is alone."""
    held, until = dict[str, float](), 0.0
    for at, values in rows:
        if not values:
            until = 0.0  # nothing is known of this time
        elif SCRIPT in values:
            held, until = {key: values[key] for key in keys}, at + _LISTED_SECONDS
        elif at <= until:
            values.update(held)
        elif TOGETHER in values:
            values[SCRIPT] = values[TOGETHER]


def _grown(before: Sequence[float | None], after: Sequence[float | None]) -> list[float | None]:
    """Return how much each counter has grown between two readings; None across a restart, or if it is unknown."""
    if not before:
        return [None] * len(_COUNTERS)
    pairs = zip(before, after, strict=True)
    return [None if old is None or new is None or new < old else new - old for old, new in pairs]


def _sum(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more


def _rates(grown: Sequence[float | None]) -> dict[str, float]:
    """Return the step time, and what belongs to it, from the growth of the counters; empty if no step ended."""
    steps, seconds, wait, examples = grown
    if not steps or not seconds:
        return {}
    found = {"step_seconds": seconds / steps}
    if wait is not None:
        found["input_wait_ratio"] = min(wait / seconds, 1.0)
    return found if examples is None else {**found, "examples_per_second": examples / seconds}
