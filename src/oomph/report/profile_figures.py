"""The figures of a trace: what some steps spent their time on, on the devices or, without one, on the host. Pure.

A device's time is that of its streams, as CUPTI or ROCm recorded them. On the host, an operation is an event named
"name:Type", as TensorFlow's executor names those of a graph, or "EagerLocalExecute: Type", outside of graphs, or one
with the stat `hlo_op`, as XLA names them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oomph.report.xplane import Line, Plane, TraceEvent, Wanted, read_planes

MOST_OPERATIONS = 10
_HOST, _GPU, _STREAM = "/host:CPU", "/device:GPU:", "Stream"
_STEP = "train"
"""The mark of a step, which `oomph run --profile` and TensorBoard's callback set."""
_EAGER = "EagerLocalExecute: "
_FUNCTION = "__"
"""The beginning of the names of functions, whose operations have events of their own."""
_INPUT = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
_COMPUTES = "::DoCompute"
_TO_DEVICE, _TO_HOST = ("MemcpyH2D", "CopyHostToDevice"), ("MemcpyD2H", "CopyDeviceToHost")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b", re.ASCII)
_SECOND = 1e12
_Span = tuple[int, int]


@dataclass(frozen=True)
class ProfiledOperation:
    """All calls of one operation."""

    name: str
    origin: str
    """The operation that XLA compiled it from, or an empty string."""
    calls: int
    seconds: float
    """Its own time, without that of operations within it."""


@dataclass(frozen=True)
class Copies:
    """All copies in one direction."""

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ProfileFigures:
    """The use of time in the steps of a trace."""

    steps: int
    """The number of marked steps; several that are executed at once have one mark."""
    seconds: float
    """The time of the steps; with devices, from the beginning of the first step to the end of their work."""
    idle: Mapping[str, float]
    """The share of the time in which nothing ran, by device ("GPU 0"); "CPU" if there is no device."""
    operations: Sequence[ProfiledOperation]
    """The operations that took most of the time, longest first."""
    busy_seconds: float
    """The time of all operations, added up over devices or threads."""
    launches: int
    """The number of kernels on the devices, or of operations on the host."""
    compiled: bool
    """True if XLA compiled some of the operations."""
    to_device: Copies | None = None
    to_host: Copies | None = None
    """The copies, or None if there is no device."""
    input_seconds: float | None = None
    """The time spent fetching batches from tf.data, or None if the trace has nothing of it."""


def figures_of(trace: bytes, is_cut: bool = False) -> ProfileFigures | None:
    """Return the figures of a trace, or None if there is no operation in it.

    Args:
        is_cut: True if the trace goes on after the last step, as until the end of the fit. Otherwise it ends as soon as
            the devices have done their work for that step.

    Raises DamagedTraceError or LargeTraceError.
    """
    planes = list(read_planes(trace, _WANTED))
    host = [line for plane in planes if plane.name == _HOST for line in plane.lines]
    steps = _steps(host)
    host = [_begun_in(line, steps) for line in host] if steps else host
    until = [(steps[0][0], steps[-1][1])] if steps and is_cut else []
    devices = {f"GPU {plane.name[len(_GPU) :]}": _streams(plane, until) for plane in planes if plane.name != _HOST}
    devices = {name: lines for name, lines in devices.items() if lines}
    lines = [line for each in devices.values() for line in each] or [_operations_in(line) for line in host]
    events = [event for line in lines for event in line.events]
    spans = steps if steps and not devices else _whole(steps, events)
    if not events or not sum(end - begin for begin, end in spans):
        return None
    copies = [event for event in events if "memcpy_details" in event.stats]
    totals = _totals(lines)
    waits = [event for line in host for event in line.events if _is_input(event.name)]
    return ProfileFigures(
        steps=len(steps),
        seconds=sum(end - begin for begin, end in spans) / _SECOND,
        idle={name: _idle(lines, spans) for name, lines in (devices or {"CPU": lines}).items()},
        operations=sorted(totals, key=lambda each: -each.seconds)[:MOST_OPERATIONS],
        busy_seconds=sum(each.seconds for each in totals),
        launches=len(events) - len(copies) - sum(event.name.startswith("Memset") for event in events),
        compiled=any("hlo_op" in event.stats for event in events),
        to_device=_copies(copies, _TO_DEVICE) if devices else None,
        to_host=_copies(copies, _TO_HOST) if devices else None,
        input_seconds=_covered((event.begin, event.end) for event in waits) / _SECOND if waits else None,
    )


# -- what is read -----------------------------------------------------------------------------------------------------


def _is_operation(name: str) -> bool:
    """True if TensorFlow names an operation like that. Waiting for a batch is not one."""
    if name.startswith(_EAGER):
        return not name.startswith((_FUNCTION, *_INPUT), len(_EAGER))
    full, colon, kind = name.rpartition(":")
    return bool(colon and full) and kind.isidentifier() and full[-1] != ":" and " " not in full


def _is_input(name: str) -> bool:
    return name.startswith(_INPUT) and name.endswith(_COMPUTES)


def _keeps(name: str, stats: Mapping[str, str]) -> bool:
    is_of_device = "kernel_details" in stats or "memcpy_details" in stats or "memset_details" in stats
    return is_of_device or "hlo_op" in stats or _is_operation(name) or name == _STEP or _is_input(name)


_WANTED = Wanted(
    planes=lambda name: name == _HOST or name.startswith(_GPU),
    stats=frozenset({"hlo_op", "tf_op", "name", "step_num", "kernel_details", "memcpy_details", "memset_details"}),
    events=_keeps,
)


def _streams(plane: Plane, until: Sequence[_Span]) -> list[Line]:
    """Return the streams of a device. Its other lines, which some tools add, show the same time once more."""
    streams = (line for line in plane.lines if line.name.startswith(_STREAM))
    lines = [_begun_in(line, until) if until else line for line in streams]
    return [line for line in lines if line.events]


def _operations_in(line: Line) -> Line:
    """Return a thread of the host with only its operations."""
    return Line(line.name, [event for event in line.events if event.name != _STEP and not _is_input(event.name)])


def _steps(host: Sequence[Line]) -> list[_Span]:
    """Return the time of each step, as marked."""
    marks = (event for line in host for event in line.events if event.name == _STEP and "step_num" in event.stats)
    return sorted((mark.begin, mark.end) for mark in marks)


# -- from events to figures -------------------------------------------------------------------------------------------


def _begun_in(line: Line, spans: Sequence[_Span]) -> Line:
    """Return a line with the events that begin in one of the spans, and thus not with a validation between steps."""
    begins = [begin for begin, _ in spans]
    inside = (event for event in line.events if event.begin < _span_of(event, begins, spans)[1])
    return Line(line.name, [event for event in inside if event.begin >= begins[0]])


def _span_of(event: TraceEvent, begins: Sequence[int], spans: Sequence[_Span]) -> _Span:
    """Return the last span that begins before the event, or the first one if there is none."""
    return spans[max(0, bisect_right(begins, event.begin) - 1)]


def _whole(steps: Sequence[_Span], events: Sequence[TraceEvent]) -> list[_Span]:
    """Return the time from the first step to the end of the last operation, since a device lags behind the host."""
    begin = min((begin for begin, _ in steps), default=min((event.begin for event in events), default=0))
    end = max((*(event.end for event in events), *(end for _, end in steps)), default=0)
    return [(begin, end)] if end > begin else []


def _idle(lines: Sequence[Line], spans: Sequence[_Span]) -> float:
    begins = [begin for begin, _ in spans]

    def inside() -> Iterator[_Span]:
        for line in lines:
            for event in line.events:
                begin, end = _span_of(event, begins, spans)
                yield max(begin, event.begin), min(end, event.end)

    return 1 - _covered(inside()) / sum(end - begin for begin, end in spans)


def _covered(spans: Iterable[_Span]) -> int:
    """Return the time in which at least one of the spans is running."""
    covered, reached = 0, None
    for begin, end in sorted(span for span in spans if span[1] > span[0]):
        start = begin if reached is None else max(begin, reached)
        covered += max(0, end - start)
        reached = end if reached is None else max(end, reached)
    return covered


def _totals(lines: Sequence[Line]) -> list[ProfiledOperation]:
    calls: dict[tuple[str, str], int] = defaultdict(int)
    times: dict[tuple[str, str], int] = defaultdict(int)
    for line in lines:
        for event, own in _own_times(line.events):
            named = _named(event)
            calls[named] += 1
            times[named] += own
    return [ProfiledOperation(*named, calls[named], times[named] / _SECOND) for named in calls]


def _own_times(events: Sequence[TraceEvent]) -> Iterator[tuple[TraceEvent, int]]:
    """Yield each event of a line with its time, without that of the events within it."""
    around: list[list[int]] = []
    own: list[list[int]] = []
    ordered = sorted(events, key=lambda event: (event.begin, -event.end))
    for event in ordered:
        while around and around[-1][1] <= event.begin:
            around.pop()
        span = [event.end - event.begin, event.end]
        if around:
            around[-1][0] -= min(event.end, around[-1][1]) - event.begin
        around.append(span)
        own.append(span)
    yield from zip(ordered, (max(0, span[0]) for span in own), strict=True)


def _named(event: TraceEvent) -> tuple[str, str]:
    """Return the name of an event's operation, and what it was compiled from."""
    compiled = event.stats.get("hlo_op")
    if compiled:
        return compiled, event.stats.get("name", "")
    of_tensorflow = event.stats.get("tf_op", "")
    return (of_tensorflow if _is_operation(of_tensorflow) else event.name.removeprefix(_EAGER)), ""


def _copies(events: Sequence[TraceEvent], names: Sequence[str]) -> Copies:
    mine = [event for event in events if event.name in names]
    sizes = (_SIZE.search(event.stats["memcpy_details"]) for event in mine)
    return Copies(
        count=len(mine),
        bytes=sum(int(size[1]) for size in sizes if size is not None),
        seconds=sum(event.end - event.begin for event in mine) / _SECOND,
    )
