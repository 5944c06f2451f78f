"""Formats a View in the Prometheus text format, version 0.0.4. Pure; needs prometheus-client.

The names, help, types and fixed labels come from the table of metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from oomph import __version__
from oomph.monitor.finding import SEVERITIES
from oomph.monitor.metrics import METRICS, Kind, Metric, Scope
from oomph.monitor.sample import Values
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
    own = {gpu.uuid: {"gpu": str(gpu.index), "uuid": gpu.uuid} for gpu in named}
    yield GPU_INFO, [({**own[gpu.uuid], "name": gpu.name}, 1) for gpu in named]
    fresh = view.sampled is not None and view.time - view.sampled < _OLD_SECONDS
    values = [(own[gpu.uuid], gpu.values) for gpu in named if fresh]
    job = view.jobs[0] if view.jobs else None
    single: dict[Scope, Values] = {
        "host": view.host if fresh else {},
        "process": job.process if job and fresh else {},
        "training": job.training if job and fresh else {},
    }
    for family, rows in families():
        measured = values if rows[0].scope == "gpu" else [({}, single[rows[0].scope])]
        yield family, _of_rows(rows, measured)
    yield RESTARTS, [({}, job.restarts)] if job else []
    by_severity = sorted(view.alerts, key=lambda each: SEVERITIES.index(each.severity))
    alerts = {(each.fault, each.subject): each.severity for each in by_severity}  # if there are several, the worst one
    labels = ({"fault": fault, "subject": about, "severity": how} for (fault, about), how in alerts.items())
    yield ALERT_ACTIVE, [(each, 1) for each in labels]


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
