"""Formats the words and numbers shown by the live view and `--once`. Pure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from oomph.monitor.detectors.workers import why_late
from oomph.monitor.sample import Values
from oomph.monitor.straggler import Straggler
from oomph.run.directory.run_directory import RUNNING
from oomph.terminal.amounts import as_duration, as_size, as_step_time, listed
from oomph.terminal.message import shown_line
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.runs import MONITORED
from oomph.watch.view import Process, View
from oomph.watch.workers import WorkerView

UNKNOWN = "-"


def memory(values: Values) -> str:
    """Format the memory in use and the total: "31.2/80 GiB"."""
    used, total = values.get("memory_used_bytes"), values.get("memory_total_bytes")
    if used is None:
        return UNKNOWN
    shown = as_size(used, "GiB")
    return shown if total is None else f"{shown.removesuffix(' GiB')}/{as_size(total, 'GiB', 0)}"


def percent(ratio: float | None) -> str:
    """Format a ratio as a percentage."""
    return UNKNOWN if ratio is None or ratio != ratio else f"{ratio * 100:.0f}%"


def celsius(value: float | None) -> str:
    """Format a temperature."""
    return UNKNOWN if value is None else f"{value:.0f} °C"


def watts(value: float | None) -> str:
    """Format power in watts."""
    return UNKNOWN if value is None else f"{value:.0f} W"


def figures(values: Values) -> tuple[str, str, str, str]:
    """Format the memory, utilization, temperature and power of a GPU."""
    return (
        memory(values),
        percent(values.get("utilization_ratio")),
        celsius(values.get("temperature_celsius")),
        watts(values.get("power_watts")),
    )


def size(size_bytes: float | None) -> str:
    """Format a number of bytes."""
    return UNKNOWN if size_bytes is None else as_size(size_bytes)


def position(at: int | None, of: int | None) -> str:
    """Format a position, such as "3/10", or "3" if the end is unknown, or if an earlier attempt went beyond it."""
    if at is None:
        return UNKNOWN
    return f"{at}/{of}" if of is not None and at <= of else str(at)


def speed(value: float | None) -> str:
    """Format a number of samples or steps per second."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def loss(value: float | None) -> str:
    """Format a loss."""
    return UNKNOWN if value is None else f"{value:.4g}"


def cores(value: float | None) -> str:
    """Format a number of busy cores."""
    return UNKNOWN if value is None else f"{value:.1f} cores"


def pool(in_use: float | None, peak: float | None, limit: float | None = None) -> str:
    """Format the memory in TensorFlow's pool, its peak and its limit: "41.2, peak 63.2 of 71.9 GiB"."""
    if in_use is None:
        return UNKNOWN
    shown = [as_size(each) for each in (in_use, peak, limit) if each is not None]
    unit = shown[-1].rpartition(" ")[2]
    now, *most = [*(each.removesuffix(f" {unit}") for each in shown[:-1]), shown[-1]]
    highest = f", peak {most.pop(0)}" if peak is not None else ""
    return f"{now}{highest}{f' of {most[0]}' if most else ''}"


_LATE_SECONDS = 3.0


def state(job: Job) -> str:
    """Describe the job and its state."""
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    return shown_line(f"{job.command}  {job.state}{attempt}")


def progress(job: Job) -> str:
    """Describe the progress of the job."""
    ending = "" if job.eta_seconds is None else f"  ETA {as_duration(job.eta_seconds)}"
    return f"{position_in_words(job)}{ending}"


def position_in_words(job: Job) -> str:
    """Describe where the job is."""
    parts = []
    if job.epoch is not None:
        parts.append(f"epoch {position(job.epoch, job.epochs)}")
    if job.step is not None:
        parts.append(f"step {position(job.step, job.steps_per_epoch)}")
    elif job.steps is not None:
        parts.append(f"{job.steps:,} steps")
    return "  ".join(parts) or _without_training(job.state)


def _without_training(state: str) -> str:
    """Describe a job that has not trained, which one that is over will not do any more."""
    return "training has not started" if state in (RUNNING, MONITORED) else "no training was seen"


def figures_of(job: Job) -> list[str]:
    """Describe the pace of the job and the memory that it holds. What is not known is left out."""
    found = []
    if job.samples_per_second is not None:
        found.append(f"{speed(job.samples_per_second)} samples/s")
    if job.input_wait_ratio is not None:
        found.append(f"input wait {percent(job.input_wait_ratio)}")
    if (newest := job.newest("loss")) is not None:
        found.append(f"loss {loss(newest)}")
    in_use, peak, limit = (job.training.get(f"allocator_{each}_bytes") for each in ("in_use", "peak", "limit"))
    if in_use is not None:
        found.append(f"TF pool {pool(in_use, peak, limit)}")
    if "resident_bytes" in job.process:
        found.append(f"script RSS {as_size(job.process['resident_bytes'])}")
    if "cpu_cores" in job.process:
        found.append(f"script CPU {cores(job.process['cpu_cores'])}")
    return found


def flowing(parts: Sequence[str], width: int) -> list[str]:
    """Lay out parts of a line on as many lines as they need. None of them is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def details_of(job: Job) -> list[str]:
    """Describe how the job computes. What is not known is left out."""
    found = []
    if job.step_seconds is not None:
        found.append(f"{as_step_time(job.step_seconds)} a step")
    if job.micro_batch is not None:
        found.append(f"micro-batch {job.micro_batch}")
    return found


def straggler(found: Straggler) -> str:
    """Name the worker that the others wait for."""
    also = f"; also late: {listed([str(rank) for rank in found.also])}" if found.also else ""
    wait, step = (as_step_time(each) for each in (found.wait_seconds, found.step_seconds))
    return f"worker {found.rank} is late by {wait} in every step of {step}: {why_late(found)}{also}"


def own_time(seconds: float) -> str:
    """Format a worker's own part of a step, which a clock may have measured as a little less than nothing."""
    return as_step_time(max(seconds, 0.0))


def other_workers(workers: Sequence[WorkerView]) -> str:
    """Describe workers that have no row of their own."""
    states = ", ".join(f"{count} {state}" for state, count in Counter(each.state for each in workers).most_common())
    parts = [f"… {len(workers)} more: {states}"]
    steps = [each.steps for each in workers if each.steps is not None]
    if steps:
        parts.append(f"step {min(steps):,}" + (f" to {max(steps):,}" if max(steps) > min(steps) else ""))
    own = [each.own_seconds for each in workers if each.own_seconds is not None]
    if own:
        parts.append(f"own part {own_time(min(own))} to {own_time(max(own))}")
    return ", ".join(parts)


def host(values: Values) -> str:
    """Format the load of the machine on one line; empty if it is not measured."""
    if not values:
        return ""
    return f"host  {memory(values)}  CPU {percent(values.get('cpu_ratio'))}"


def process(each: Process, runs: Mapping[str, int]) -> str:
    """Name a process and the run that it belongs to."""
    number = runs.get(each.run)
    whose = f" (run {number})" if number else " (this run)" if each.own and not runs else ""
    return f"{shown_line(each.name or '?')}{whose}"


def age(view: View) -> str:
    """Describe the age of the newest sample; empty if it is recent."""
    seconds = 0.0 if view.sampled is None else view.time - view.sampled
    return f"last sample {as_duration(seconds)} ago" if seconds > _LATE_SECONDS else ""


def time_of_day(seconds: float) -> str:
    """Format a Unix time as a time of day. A journal may contain a time that cannot be represented."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "??:??:??"


def incident(each: ShownIncident, runs: Mapping[str, int] = MappingProxyType({})) -> str:
    """Format an incident on one line: when, how bad, which fault, of which run, and for how long if it has ended.

    Args:
        each: the incident.
        runs: the numbers of the runs by their paths, if several are shown.
    """
    run = f"run {runs[each.run]}" if each.run in runs else ""
    subject = ", ".join(part for part in (run, each.subject) if part)
    told = f"{subject}: {each.message}" if subject else each.message
    return shown_line(f"{time_of_day(each.time)}  {each.severity}  {each.fault}  {told}{_over(each)}")


def remedy(each: ShownIncident) -> str:
    """Return the remedy for an incident; empty for a finding that has ended."""
    return "" if each.ended is not None else shown_line(each.remedy)


def _over(each: ShownIncident) -> str:
    if each.ended is None:
        return ""
    seconds = each.ended - each.time
    return f" (over after {as_duration(seconds)})" if seconds >= 1 else " (over)"
