"""A View as plain text: `oomph watch --once`. Pure; needs no rich."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import reflowed, table
from oomph.watch import figures, wording
from oomph.watch.incidents import ShownIncident
from oomph.watch.view import GpuView, Process, View

_MOST_INCIDENTS = 10


def as_text(view: View, width: int) -> str:
    """The text of a view: the runs, the GPUs, their processes, and what happened."""
    return reflowed("\n".join(_lines(view, width)), width) + "\n"


def _lines(view: View, width: int) -> Iterator[str]:
    for job in view.jobs:
        yield wording.state(job)
        yield f"  {wording.progress(job)}"
        if wording.pace(job):
            yield f"  {wording.pace(job)}"
        yield f"  {shown_line(job.run)}"
    if not view.jobs:
        yield "no run of oomph in this folder"
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
        yield from table([("GPU", "pid", "memory", "process"), *map(_process, view.processes)], width)
    yield from _incidents("found now", view.alerts)
    yield from _incidents("what happened", view.past)
    for source, why in view.problems.items():
        yield ""
        yield shown_line(f"{source}: {why}")


def _incidents(head: str, incidents: Sequence[ShownIncident]) -> Iterator[str]:
    if incidents:
        yield ""
        yield head
    for incident in incidents[:_MOST_INCIDENTS]:
        yield wording.incident(incident)
        if wording.remedy(incident):
            yield f"  {wording.remedy(incident)}"


def _gpu(gpu: GpuView) -> tuple[str, ...]:
    if gpu.problem:
        return (gpu.label, "-", "-", "-", "-", shown_line(gpu.problem))
    values = gpu.values
    return (
        gpu.label,
        figures.memory(values),
        figures.percent(values.get("utilization_ratio")),
        figures.celsius(values.get("temperature_celsius")),
        figures.watts(values.get("power_watts")),
        shown_line(gpu.name),
    )


def _process(process: Process) -> tuple[str, ...]:
    name = shown_line(process.name or "?")
    own = f"{name} (this run)" if process.own else name
    return (str(process.gpu), str(process.pid), figures.size(process.memory_bytes), own)
