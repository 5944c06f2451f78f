"""A View in the text format of Prometheus, version 0.0.4. Pure.

Names, help, types and fixed labels come from the table of metrics. Source: Prometheus, Exposition formats,
https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from oomph import __version__
from oomph.monitor.finding import SEVERITIES
from oomph.monitor.metrics import METRICS, Kind, Metric, Scope
from oomph.monitor.sample import Values
from oomph.watch.view import View

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OLD_SECONDS = 30.0
"""Values that are older are left out: Prometheus would take them for new."""


class Family(NamedTuple):
    """Series of one name."""

    name: str
    help: str
    kind: Kind


BUILD_INFO = Family("oomph_build_info", "The version of oomph; always 1.", "gauge")
GPU_INFO = Family("oomph_gpu_info", "The name of each GPU; always 1.", "gauge")
RESTARTS = Family("oomph_restarts_total", "How often oomph has restarted the script.", "counter")
ALERT_ACTIVE = Family("oomph_alert_active", "1 for each fault that the monitor finds now.", "gauge")
OWN = (BUILD_INFO, GPU_INFO, RESTARTS, ALERT_ACTIVE)
"""Series beyond the table of metrics."""

_Sample = tuple[Mapping[str, str], float]


def exposition(view: View) -> str:
    """The text for a scrape."""
    return "".join(f"{line}\n" for line in _lines(view))


def families() -> list[tuple[Family, list[Metric]]]:
    """The metrics of the table by their Prometheus name."""
    by_name: dict[str, list[Metric]] = {}
    for metric in METRICS:
        by_name.setdefault(metric.prometheus, []).append(metric)
    return [(Family(name, rows[0].help, rows[0].kind), rows) for name, rows in by_name.items()]


def _lines(view: View) -> Iterator[str]:
    yield from _series(BUILD_INFO, [({"version": __version__}, 1)])
    named = [gpu for gpu in view.gpus if gpu.uuid]
    own = {gpu.uuid: {"gpu": str(gpu.index), "uuid": gpu.uuid} for gpu in named}
    yield from _series(GPU_INFO, [({**own[gpu.uuid], "name": gpu.name}, 1) for gpu in named])
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
        yield from _series(
            family,
            [
                ({**labels, **row.labels}, found[row.key])
                for labels, found in measured
                for row in rows
                if row.key in found
            ],
        )
    yield from _series(RESTARTS, [({}, job.restarts)] if job else [])
    by_severity = sorted(view.alerts, key=lambda each: SEVERITIES.index(each.severity))
    alerts = {(each.fault, each.subject): each.severity for each in by_severity}  # of several, the worst
    labelled = ({"fault": fault, "subject": about, "severity": how} for (fault, about), how in alerts.items())
    yield from _series(ALERT_ACTIVE, [(labels, 1) for labels in labelled])


def _series(family: Family, samples: Iterable[_Sample]) -> Iterator[str]:
    lines = [f"{family.name}{_labels(labels)} {_value(value)}" for labels, value in samples]
    if lines:
        yield f"# HELP {family.name} {_escaped(family.help)}"
        yield f"# TYPE {family.name} {family.kind}"
        yield from lines


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _value(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"").encode(errors="replace").decode()
