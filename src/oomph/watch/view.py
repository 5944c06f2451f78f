"""View: frozen values with everything that `oomph watch` shows at one moment. Pure.

The live view, `--once`, `--json` and the Prometheus endpoint all show a View, and do not read anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from oomph.monitor.finding import SEVERITIES
from oomph.monitor.metrics import METRICS
from oomph.monitor.sample import GpuProcess, GpuSample, Sample, Values
from oomph.watch.history import SPAN_SECONDS, Series, series
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job

CHARTED = ("memory_used_bytes", "utilization_ratio", "temperature_celsius", "power_watts")
"""The GPU metrics that are shown with a curve of the last two minutes."""
_CHARTED_OF_HOST = ("memory_used_bytes", "cpu_ratio")
_SLOW = frozenset(metric.key for metric in METRICS if metric.every_seconds > 1)
_SLOW_SECONDS = 25.0
"""The maximum age, in seconds, at which a slow value is still shown. As it is read every ten seconds, it may be absent
twice."""
_PROCESSES_SECONDS = 30.0
"""The age, in seconds, above which process lists are no longer shown."""


@dataclass(frozen=True)
class GpuView:
    """A GPU, with its newest values and the recent values of charted metrics."""

    index: int
    uuid: str
    name: str = ""
    values: Values = field(default_factory=dict)
    history: Mapping[str, Series] = field(default_factory=dict)
    problem: str = ""
    """The reason why the GPU did not answer. There are then no values."""
    instance: int | None = None
    """The number of a MIG instance, or None for a whole GPU."""

    @property
    def label(self) -> str:
        """The number of the GPU, and of its MIG instance if any: "0", "0:1"."""
        return str(self.index) if self.instance is None else f"{self.index}:{self.instance}"


@dataclass(frozen=True)
class Process:
    """A process that uses memory on a GPU."""

    gpu: int
    pid: int
    name: str
    memory_bytes: int | None
    own: bool
    """True if the process belongs to the script of a displayed run."""
    run: str = ""
    """The path of that run, if it is known."""


@dataclass(frozen=True)
class View:
    """The values that are shown at one moment."""

    time: float
    """The Unix time of the view."""
    gpus: tuple[GpuView, ...] = ()
    processes: tuple[Process, ...] = ()
    """The processes, those that use the most memory first."""
    jobs: tuple[Job, ...] = ()
    """The runs, with the requested one first."""
    incidents: tuple[ShownIncident, ...] = ()
    """The incidents and current findings, newest first."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Maps each source without values to the reason."""
    host: Values = field(default_factory=dict)
    host_history: Mapping[str, Series] = field(default_factory=dict)
    sampled: float | None = None
    """The Unix time of the newest sample, or None if there is none."""
    host_name: str = ""
    """The name of the machine with these GPUs."""

    def until(self, sampled: float | None) -> float:
        """Return the time at which charts end: now, or the newest sample if nothing would otherwise be left on them."""
        return sampled if sampled is not None and self.time - sampled > SPAN_SECONDS else self.time

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each run by its path, if there are several."""
        return {job.run: number for number, job in enumerate(self.jobs, 1)} if len(self.jobs) > 1 else {}

    @property
    def alerts(self) -> tuple[ShownIncident, ...]:
        """The current findings, the most severe first."""
        present = (each for each in self.incidents if each.is_present)
        return tuple(sorted(present, key=lambda each: -SEVERITIES.index(each.severity)))

    @property
    def past(self) -> tuple[ShownIncident, ...]:
        """The past incidents, and the findings that have ended."""
        return tuple(each for each in self.incidents if not each.is_present)


def view_of(
    now: float,
    samples: Sequence[Sample],
    jobs: Sequence[Job],
    present: Sequence[ShownIncident] = (),
    problems: Mapping[str, str] = MappingProxyType({}),
    host_name: str = "",
) -> View:
    """Build the view at one moment.

    Args:
        now: the Unix time.
        samples: the samples of the last few minutes, oldest first.
        jobs: the runs to show.
        present: the current findings in these samples.
        problems: the reasons for missing samples, in addition to those given in the samples.
        host_name: the name of the machine that was sampled.
    """
    told = [each for job in jobs for each in job.incidents]
    known = {each.key for each in told if each.is_present}
    incidents = [*told, *(each for each in present if each.key not in known)]
    newest = samples[-1] if samples else Sample(now)
    host = [(sample.time, sample.host) for sample in samples]
    return View(
        time=now,
        gpus=_gpus(samples) if samples else (),
        processes=_processes(samples, jobs) if samples else (),
        jobs=tuple(jobs),
        incidents=tuple(sorted(incidents, key=lambda each: each.time, reverse=True)),
        problems={**newest.problems, **problems},
        host=last_known(host) if host else {},
        host_history=_charted(host, _CHARTED_OF_HOST),
        sampled=newest.time if samples else None,
        host_name=host_name,
    )


def _gpus(samples: Sequence[Sample]) -> tuple[GpuView, ...]:
    past: dict[str, list[tuple[float, Values]]] = {}
    for sample in samples:
        for gpu in sample.gpus:
            past.setdefault(gpu.uuid, []).append((sample.time, gpu.values))
    counts: Counter[int] = Counter()
    gpus = []
    for gpu in samples[-1].gpus:
        instance = None
        if gpu.uuid.startswith("MIG-"):
            instance, counts[gpu.index] = counts[gpu.index], counts[gpu.index] + 1
        gpus.append(_gpu(gpu, instance, past[gpu.uuid]))
    return tuple(gpus)


def _gpu(gpu: GpuSample, instance: int | None, past: Sequence[tuple[float, Values]]) -> GpuView:
    return GpuView(
        gpu.index,
        gpu.uuid,
        gpu.name,
        {} if gpu.problem else last_known(past),
        _charted(past, CHARTED),
        gpu.problem,
        instance,
    )


def _charted(past: Sequence[tuple[float, Values]], keys: Sequence[str]) -> dict[str, Series]:
    return {key: points for key in keys if (points := series(past, key))}


def last_known(past: Sequence[tuple[float, Values]]) -> Values:
    """Return the newest values, and the last known values of metrics that are read only every ten seconds.

    `past` contains pairs (time, values), oldest first.
    """
    now, newest = past[-1]
    found = dict(newest)
    for time, values in reversed(past):
        if now - time > _SLOW_SECONDS:
            break
        found |= {key: value for key, value in values.items() if key in _SLOW and key not in found}
    return found


def _processes(samples: Sequence[Sample], jobs: Sequence[Job]) -> tuple[Process, ...]:
    """Return the processes from the last list that was read for each GPU."""
    runs = {pid: job.run for job in jobs for pid in job.gpu_pids}
    newest: dict[str, list[Process]] = {}
    for sample in reversed(samples):
        if samples[-1].time - sample.time > _PROCESSES_SECONDS:
            break
        for gpu in sample.gpus:
            if gpu.processes is not None and gpu.uuid not in newest:
                newest[gpu.uuid] = [_process(gpu.index, each, runs) for each in gpu.processes]
    present = {gpu.uuid for gpu in samples[-1].gpus if not gpu.problem}
    every = [process for uuid, listed in newest.items() if uuid in present for process in listed]
    return tuple(sorted(every, key=lambda process: (-(process.memory_bytes or 0), process.gpu, process.pid)))


def _process(gpu: int, each: GpuProcess, runs: Mapping[int, str]) -> Process:
    run = runs.get(each.pid, "")
    return Process(gpu, each.pid, each.name, each.memory_bytes, each.own or bool(run), run)
