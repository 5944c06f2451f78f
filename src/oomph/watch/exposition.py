"""Formats a View in the Prometheus text format, version 0.0.4. Pure; needs prometheus-client.

The names, help, types and fixed labels come from the table of metrics. The job is the label `run`: Prometheus sets
`job` itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from oomph import __version__
from oomph.monitor.metrics import METRICS, Kind, Metric, Scope
from oomph.monitor.sample import Values
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.view import View

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OLD_SECONDS = 30.0
"""The age, in seconds, at which values are left out, because Prometheus would treat them as new."""


class Family(NamedTuple):
    """All series with the same name."""

    name: str
    help: str
    kind: Kind


BUILD_INFO = Family("oomph_build_info", "The oomph version; always 1.", "gauge")
GPU_INFO = Family("oomph_gpu_info", "The name of each GPU; always 1.", "gauge")
RESTARTS = Family("oomph_restarts_total", "How many times oomph has restarted the script.", "counter")
ALERT_ACTIVE = Family("oomph_alert_active", "1 for each fault that the monitor currently finds.", "gauge")
OWN = (BUILD_INFO, GPU_INFO, RESTARTS, ALERT_ACTIVE)
"""The families that are not in the table of metrics."""

_Point = tuple[Mapping[str, str], float]
_Series = GaugeMetricFamily | CounterMetricFamily


def exposition(view: View) -> str:
    """Return the text that answers a scrape."""
    return generate_latest(_Collected(view)).decode()


def families() -> list[tuple[Family, list[Metric]]]:
    """Return the metrics in the table, grouped by Prometheus name."""
    by_name: dict[str, list[Metric]] = {}
    for metric in METRICS:
        by_name.setdefault(metric.prometheus, []).append(metric)
    return [(Family(name, rows[0].help, rows[0].kind), rows) for name, rows in by_name.items()]


class _Collected(Collector):
    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[_Series]:
        """Yield every series that has a value."""
        for family, points in _measured(self._view):
            series = _series(family, list(points))
            if series.samples:
                yield series


def _measured(view: View) -> Iterator[tuple[Family, Iterable[_Point]]]:
    yield BUILD_INFO, [({"version": __version__}, 1)]
    named = [gpu for gpu in view.gpus if gpu.uuid]
    here = {"host": view.host_name}
    own = {gpu.uuid: {"gpu": str(gpu.index), "uuid": gpu.uuid, **here} for gpu in named}
    yield GPU_INFO, [({**own[gpu.uuid], "name": gpu.name}, 1) for gpu in named]
    jobs = {job.name: job for job in reversed(view.jobs)}  # two series must not have the same labels
    is_fresh = _is_fresh(view, view.sampled)
    measured: dict[Scope, list[tuple[Mapping[str, str], Values]]] = {
        "gpu": [(own[gpu.uuid], gpu.values) for gpu in named if is_fresh],
        "host": [(here, view.host if is_fresh else {})],
        "process": [],
        "training": [],
    }
    for name, job in jobs.items():
        if _is_fresh(view, job.sampled):
            for labels, process, training in _of_workers(name, job):
                measured["process"].append((labels, process))
                measured["training"].append((labels, training))
    for family, rows in families():
        yield family, _of_rows(rows, measured[rows[0].scope])
    yield RESTARTS, [({"run": name, "host": job.host}, job.restarts) for name, job in jobs.items()]
    alerts = {(each.fault, each.subject, *_place(view, each)): each.severity for each in reversed(view.alerts)}
    found = (
        {"fault": fault, "subject": about, "severity": how, "run": run, "host": host}
        for (fault, about, run, host), how in alerts.items()
    )
    yield ALERT_ACTIVE, [(each, 1) for each in found]


def _of_workers(name: str, job: Job) -> Iterator[tuple[Mapping[str, str], Values, Values]]:
    """Yield the labels and the values of each worker. The first has those that the monitor samples."""
    yield {"run": name, "rank": "0", "host": job.host}, job.process, job.training
    for worker in job.workers:
        if worker.rank and worker.reading is not None:
            held = {} if worker.resident_bytes is None else {"resident_bytes": worker.resident_bytes}
            yield {"run": name, "rank": str(worker.rank), "host": worker.host or job.host}, held, worker.training


def _is_fresh(view: View, sampled: float | None) -> bool:
    return sampled is not None and view.time - sampled < _OLD_SECONDS


def _place(view: View, alert: ShownIncident) -> tuple[str, str]:
    """Return the name of the run that an alert belongs to, or an empty string, and its machine."""
    return next(((job.name, job.host) for job in view.jobs if job.run == alert.run), ("", view.host_name))


def _of_rows(rows: list[Metric], measured: Iterable[tuple[Mapping[str, str], Values]]) -> Iterator[_Point]:
    for labels, found in measured:
        yield from (({**labels, **row.labels}, found[row.key]) for row in rows if row.key in found)


def _series(family: Family, points: list[_Point]) -> _Series:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    series = kind(family.name, family.help, labels=list(points[0][0]) if points else ())
    for labels, value in points:
        series.add_metric([_encodable(text) for text in labels.values()], value)
    return series


def _encodable(text: str) -> str:
    """Replace any characters that UTF-8 cannot encode, such as half of a surrogate pair in a name."""
    return text.encode(errors="replace").decode()
