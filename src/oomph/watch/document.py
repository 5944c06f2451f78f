"""A View as one JSON document: `oomph watch --once --json`. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from oomph.watch.job import Job
from oomph.watch.view import GpuView, View

SCHEMA = 1


def as_document(view: View) -> dict[str, Any]:
    """The view as a JSON document. Values are named as in the table of metrics; unmeasured ones are absent."""
    document = {
        "schema": SCHEMA,
        "time": view.time,
        "sampled": view.sampled,
        "gpus": [_gpu(gpu) for gpu in view.gpus],
        "processes": [asdict(process) for process in view.processes],
        "jobs": [_job(job) for job in view.jobs],
        "incidents": [asdict(incident) for incident in view.incidents],
        "alerts": [asdict(alert) for alert in view.alerts],
        "problems": dict(view.problems),
        "host": dict(view.host),
    }
    finite: dict[str, Any] = _finite(document)
    return finite


def _gpu(gpu: GpuView) -> dict[str, Any]:
    problem = {"problem": gpu.problem} if gpu.problem else {}
    return {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, **gpu.values, **problem}


def _job(job: Job) -> dict[str, Any]:
    """The job without incidents, which the document has, and without unmeasured values."""
    fields = {name: value for name, value in vars(job).items() if value is not None and name != "incidents"}
    return {**fields, "training": dict(job.training), "process": dict(job.process)}


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by words, since JSON cannot express them; whole numbers lose their ".0"."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value
