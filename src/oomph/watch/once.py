"""Formats a View as plain text and as a JSON document, for `oomph watch --once`. Pure; does not need rich."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import reflowed, table
from oomph.watch import wording
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.view import GpuView, Process, View
from oomph.watch.workers import WorkerView, worst_first

_MOST_INCIDENTS, _MOST_WORKERS = 10, 16


def as_text(view: View, width: int) -> str:
    """Format a view as text: the runs, the GPUs and their processes, and past events."""
    return reflowed("\n".join(_lines(view, width)), width) + "\n"


def _lines(view: View, width: int) -> Iterator[str]:
    runs = view.numbers
    for job in view.jobs:
        yield f"run {runs[job.run]}: {wording.state(job)}" if runs else wording.state(job)
        yield f"  {wording.progress(job)}"
        figures = [*wording.figures_of(job), *wording.details_of(job)]
        yield from (f"  {line}" for line in wording.flowing(figures, width - 2))
        yield from _workers(job, width)
        yield f"  {shown_line(job.run)}"
    if not view.jobs:
        yield "no oomph run in this folder"
    yield ""
    if view.gpus:
        yield from table([("GPU", "memory", "use", "temp", "power", "name"), *map(_gpu, view.gpus)], width)
    else:
        yield "no GPU to show"
    if view.host:
        yield wording.host(view.host)
    if wording.age(view):
        yield wording.age(view)
    if view.processes:
        yield ""
        yield from table(
            [("GPU", "pid", "memory", "process"), *(_process(each, runs) for each in view.processes)], width
        )
    yield from _incidents("current findings", view.alerts, runs)
    yield from _incidents("what happened", view.past, runs)
    for source, why in view.problems.items():
        yield ""
        yield shown_line(f"{source}: {why}")


def _workers(job: Job, width: int) -> Iterator[str]:
    """Yield the workers, if there are several, the worst first."""
    if not job.workers:
        return
    order = worst_first(job.workers)
    heads = ("worker", "state", "step", "own part of a step", "input wait", "TF pool", "RSS", "host")
    yield from table([heads, *map(_worker, order[:_MOST_WORKERS])], width)
    if order[_MOST_WORKERS:]:
        yield wording.other_workers(order[_MOST_WORKERS:])
    if job.straggler is not None:
        yield wording.straggler(job.straggler)


def _worker(worker: WorkerView) -> tuple[str, ...]:
    own, unknown = worker.own_seconds, wording.UNKNOWN
    return (
        str(worker.rank),
        worker.state,
        unknown if worker.steps is None else f"{worker.steps:,}",
        unknown if own is None else wording.own_time(own),
        wording.percent(worker.input_wait_ratio),
        wording.size(worker.pool_bytes),
        wording.size(worker.resident_bytes),
        shown_line(worker.host),
    )


def _incidents(head: str, incidents: Sequence[ShownIncident], runs: Mapping[str, int]) -> Iterator[str]:
    if incidents:
        yield ""
        yield head
    for incident in incidents[:_MOST_INCIDENTS]:
        yield wording.incident(incident, runs)
        if wording.remedy(incident):
            yield f"  {wording.remedy(incident)}"


def _gpu(gpu: GpuView) -> tuple[str, ...]:
    if gpu.problem:
        return (gpu.label, "-", "-", "-", "-", shown_line(gpu.problem))
    return (gpu.label, *wording.figures(gpu.values), shown_line(gpu.name))


def _process(process: Process, runs: Mapping[str, int]) -> tuple[str, ...]:
    return (str(process.gpu), str(process.pid), wording.size(process.memory_bytes), wording.process(process, runs))


SCHEMA = 1


def as_document(view: View) -> dict[str, Any]:
    """Return the view as a JSON document. Values are named as in the table of metrics, and absent if not measured."""
    document = {
        "schema": SCHEMA,
        "time": view.time,
        "sampled": view.sampled,
        "gpus": [_gpu_document(gpu) for gpu in view.gpus],
        "processes": [asdict(process) for process in view.processes],
        "jobs": [_job_document(job) for job in view.jobs],
        "incidents": [asdict(incident) for incident in view.incidents],
        "alerts": [asdict(alert) for alert in view.alerts],
        "problems": dict(view.problems),
        "host": dict(view.host),
    }
    finite: dict[str, Any] = _finite(document)
    return finite


def _gpu_document(gpu: GpuView) -> dict[str, Any]:
    problem = {"problem": gpu.problem} if gpu.problem else {}
    return {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, **gpu.values, **problem}


def _job_document(job: Job) -> dict[str, Any]:
    """Return the job without its incidents, which are listed separately, and without values that were not measured."""
    left_out = ("incidents", "history", "gpu_pids", "workers", "straggler")
    fields = {name: value for name, value in vars(job).items() if value is not None and name not in left_out}
    document = {**fields, "training": dict(job.training), "process": dict(job.process)}
    if job.workers:
        document["workers"] = [_worker_document(each) for each in job.workers]
    if job.straggler is not None:
        document["straggler"] = asdict(job.straggler)
    return document


def _worker_document(worker: WorkerView) -> dict[str, Any]:
    known = {
        "steps": worker.steps,
        "step_seconds": None if worker.time is None else worker.time.step,
        "own_seconds": worker.own_seconds,
        "input_wait_ratio": worker.input_wait_ratio,
        "resident_bytes": worker.resident_bytes,
    }
    fields = {name: value for name, value in known.items() if value is not None}
    return {
        "rank": worker.rank,
        "host": worker.host,
        "state": worker.state,
        **fields,
        "training": dict(worker.training),
    }


def _finite(value: Any) -> Any:
    """Replace NaN and infinity with strings, since JSON cannot represent them, and whole floats with integers."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value
