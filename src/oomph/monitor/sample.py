"""A sample: the measurements at one moment, written to and read from one line of JSON. Pure.

A line contains only values. The header, which is the first line of a file, lists the metric of each column:

    {"schema": 1, "at": 0, "gpu": ["memory_used_bytes", ...], "host": [...], "process": [...], "training": [...]}
    [time, [[index, uuid, name, values, more], ...], host, process, training, more]

Slow metrics come last, and are cut off if they were not read. `more` is omitted if empty. Values are rounded to their
source's precision (`_DIGITS`). NaN and infinity are strings, since JSON cannot represent them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, NoReturn, TypeVar, get_args

from oomph.monitor.census import Census, as_document, census_of
from oomph.monitor.metrics import Metric, Scope, of_scope
from oomph.monitor.pace import PaceReading

Values = Mapping[str, float]
"""Measured values, keyed by metric (`metrics.py`). Values that cannot be measured are absent, never 0."""
SCHEMA = 1
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_DIGITS = {"bytes": 0, "hertz": 0, "joules": 0, "watts": 1, "celsius": 1, "ratio": 3, "seconds": 4}
"""The number of decimal places for each unit. Values in other units keep six significant digits."""
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MOST = 2.0**63
_MOST_TEXT = 1000
_T = TypeVar("_T", str, int)


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses memory on a GPU."""

    pid: int
    memory_bytes: int | None
    """The number of bytes that the process holds, or None if the driver does not report it, as in some containers."""
    name: str = ""
    own: bool = False
    """True if the process belongs to the watched script."""


@dataclass(frozen=True)
class GpuEvent:
    """An event that the driver reported for a GPU: an Xid error or a change of state."""

    kind: str
    """The kind of event: "xid", "ecc-double-bit", "unavailable" or "lost"."""
    code: int = 0
    """The Xid number, or 0 for other kinds of events."""
    source: str = "nvml"
    """The source of the event: "nvml" or "kernel"."""
    text: str = ""
    """The line from the kernel log, if that is the source."""


def title_of_gpu(index: int, name: str) -> str:
    """Return the name of a GPU in findings: "GPU 0 (NVIDIA H100)"."""
    return f"GPU {index} ({name})" if name else f"GPU {index}"


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment."""

    index: int
    uuid: str
    name: str = ""
    values: Values = field(default_factory=dict)
    processes: tuple[GpuProcess, ...] | None = None
    """The processes that use memory on the GPU, or None if they were not requested this time or may not be listed."""
    events: tuple[GpuEvent, ...] = ()
    """The events since the last sample."""
    problem: str = ""
    """The reason why the GPU did not answer, such as "GPU is lost" or "no answer for 12 s". Its values are then
    absent."""

    @property
    def is_lost(self) -> bool:
        """True if the driver has lost the GPU, or it needs a reset. NVML reports both in these words."""
        return any(word in self.problem.lower() for word in ("lost", "reset", "gone"))

    @property
    def title(self) -> str:
        """The name used in findings: "GPU 0 (NVIDIA H100)"."""
        return title_of_gpu(self.index, self.name)


@dataclass(frozen=True)
class Baseline:
    """The allocator's bytes in use at the end of an epoch, or at intervals within one: memory that is kept."""

    step: int
    bytes_in_use: float
    epoch: int = 0
    """The number, counted from 1, of the epoch that has just ended, or 0 within an epoch."""
    time: float = 0.0
    """The Unix time, in seconds."""
    process: int = 0
    """The pid of the training process. A different process starts with empty memory."""


@dataclass(frozen=True)
class ScriptProcess:
    """One of the script's processes, and the memory that it adds to the others'."""

    pid: int
    memory_bytes: int
    """Its proportional share (PSS): pages that several processes share are divided among them."""
    name: str = ""
    is_script: bool = False
    """True for the process of the script itself."""


@dataclass(frozen=True)
class Sample:
    """A sample. If a source does not answer, its part is empty and `problems` gives the reason."""

    time: float
    """The Unix time of the sample, in seconds."""
    gpus: tuple[GpuSample, ...] = ()
    host: Values = field(default_factory=dict)
    process: Values = field(default_factory=dict)
    """The totals over all processes of the watched script."""
    training: Values = field(default_factory=dict)
    """The values measured inside the training process; empty until it reports any."""
    baselines: tuple[Baseline, ...] = ()
    """The baselines added since the last sample."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """The reason why a source has no values: {"nvml": "this user is not allowed to query the NVIDIA driver"}."""
    processes: tuple[ScriptProcess, ...] = ()
    """The script's processes, if there are several and they were just listed."""
    census: Census | None = None
    """The objects that the script's process holds, if they were counted since the last sample."""
    paces: Mapping[int, PaceReading] = field(default_factory=dict)
    """The position of each of several workers, by rank, if it was just read. It is not stored: the workers do that."""


class Header(NamedTuple):
    """The first line of a file, which describes the lines after it."""

    at: int
    """The offset, in bytes, in the compressed file at which these lines belong."""
    columns: Mapping[Scope, Sequence[str]]
    """The keys of each scope, in the order in which its values are listed."""


def _by_speed(scope: Scope) -> tuple[Metric, ...]:
    return tuple(sorted(of_scope(scope), key=lambda metric: metric.every_seconds))


_COLUMNS = {scope: [(metric.key, _DIGITS.get(metric.unit)) for metric in _by_speed(scope)] for scope in _SCOPES}


def header_line(at: int) -> bytes:
    """Return the first line of a file that continues the compressed file at byte `at`."""
    columns = {scope: [key for key, _ in _COLUMNS[scope]] for scope in _SCOPES}
    return json.dumps({"schema": SCHEMA, "at": at} | columns, separators=(",", ":")).encode() + b"\n"


def sample_line(sample: Sample) -> bytes:
    """Format the sample as a line. Values that are not in the table of metrics are left out."""
    scopes = [_row(scope, getattr(sample, scope)) for scope in ("host", "process", "training")]
    line = [_short(sample.time, 3), [_gpu_row(gpu) for gpu in sample.gpus], *scopes]
    more: dict[str, Any] = {}
    if sample.baselines:
        more["baselines"] = [_baseline_row(each) for each in sample.baselines]
    if sample.problems:
        more["problems"] = {source: why[:_MOST_TEXT] for source, why in sample.problems.items()}
    if sample.processes:
        more["processes"] = [[each.pid, each.memory_bytes, each.name, int(each.is_script)] for each in sample.processes]
    if sample.census is not None:
        more["census"] = as_document(sample.census)
    return json.dumps([*line, more] if more else line, separators=(",", ":")).encode() + b"\n"


def _baseline_row(baseline: Baseline) -> list[Any]:
    held, at = _short(baseline.bytes_in_use, 0), _short(baseline.time, 3)
    return [baseline.step, held, baseline.epoch, at, baseline.process]


def _gpu_row(gpu: GpuSample) -> list[Any]:
    row = [gpu.index, gpu.uuid, gpu.name, _row("gpu", gpu.values)]
    more: dict[str, Any] = {}
    if gpu.processes is not None:
        more["processes"] = [[each.pid, each.memory_bytes, each.name, int(each.own)] for each in gpu.processes]
    if gpu.events:
        more["events"] = [[each.kind, each.code, each.source, each.text[:_MOST_TEXT]] for each in gpu.events]
    if gpu.problem:
        more["problem"] = gpu.problem[:_MOST_TEXT]
    return [*row, more] if more else row


def _row(scope: Scope, values: Values) -> list[Any]:
    get = values.get
    row = [None if (value := get(key)) is None else _short(value, digits) for key, digits in _COLUMNS[scope]]
    while row and row[-1] is None:
        row.pop()
    return row


def _short(value: float, digits: int | None) -> float | str:
    if type(value) is int:
        return value
    if not isfinite(value):
        return str(float(value))
    whole = int(value)
    if value == whole:
        return whole
    return float(f"{value:.6g}") if digits is None else round(value, digits) if digits else round(value)


def read_header(line: bytes) -> Header | None:
    """Parse a header, or return None if the line does not follow this schema."""
    document = _parsed(line)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    try:
        columns = {scope: [_typed(key, str) for key in document[scope]] for scope in _SCOPES}
        return Header(_count(document["at"]), columns)
    except (KeyError, TypeError, ValueError):
        return None


def read_row(line: bytes) -> list[Any] | None:
    """Parse one line as an unchecked row, or return None if it is incomplete or not a row."""
    document = _parsed(line)
    return document if isinstance(document, list) else None


def read_sample(line: bytes, header: Header) -> Sample | None:
    """Parse one line, or return None if it is incomplete or not a sample."""
    document = read_row(line)
    if document is None:
        return None
    try:
        return _sample(header, *document)
    except (TypeError, ValueError, AttributeError, KeyError):
        return None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _sample(
    header: Header, time: Any, gpus: Any, host: Any, process: Any, training: Any, more: Mapping[str, Any] | None = None
) -> Sample:
    more = more or {}
    return Sample(
        _time(time),
        tuple(_gpu(header, *gpu) for gpu in gpus),
        _values(header.columns["host"], host),
        _values(header.columns["process"], process),
        _values(header.columns["training"], training),
        tuple(_baseline(*each) for each in more.get("baselines", ())),
        {_typed(key, str): _typed(why, str) for key, why in more.get("problems", {}).items()},
        tuple(_script_process(*each) for each in more.get("processes", ())),
        census_of(more.get("census")),
    )


def _gpu(
    header: Header, index: Any, uuid: Any, name: Any, values: Any, more: Mapping[str, Any] | None = None
) -> GpuSample:
    more = more or {}
    processes = more.get("processes")
    return GpuSample(
        _count(index),
        _typed(uuid, str),
        _typed(name, str),
        _values(header.columns["gpu"], values),
        None if processes is None else tuple(_process(*each) for each in processes),
        tuple(_event(*each) for each in more.get("events", ())),
        _typed(more.get("problem", ""), str),
    )


def _baseline(step: Any, held: Any, epoch: Any, at: Any, process: Any) -> Baseline:
    return Baseline(_count(step), _number(held), _count(epoch), _number(at), _count(process))


def _process(pid: Any, memory: Any, name: Any, own: Any) -> GpuProcess:
    return GpuProcess(_count(pid), None if memory is None else _count(memory), _typed(name, str), own == 1)


def _script_process(pid: Any, memory: Any, name: Any, is_script: Any) -> ScriptProcess:
    return ScriptProcess(_count(pid), _count(memory), _typed(name, str), is_script == 1)


def _event(kind: Any, code: Any, source: Any, text: Any) -> GpuEvent:
    return GpuEvent(_typed(kind, str), _count(code), _typed(source, str), _typed(text, str))


def _values(columns: Sequence[str], row: Any) -> dict[str, float]:
    return {key: _number(value) for key, value in zip(columns, _list(row), strict=False) if value is not None}


def _number(value: Any) -> float:
    if type(value) is float and -_MOST < value < _MOST:
        return value
    if type(value) is int and -_MOST < value < _MOST:
        return float(value)
    if type(value) is str and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise ValueError("not a number")


def _time(value: Any) -> float:
    time = _number(value)
    if not isfinite(time):
        raise ValueError("not a time")
    return time


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError("not a count")
    return value


def _typed(value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"not of type {kind.__name__}")
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
