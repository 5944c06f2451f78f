"""Formats the words and numbers shown by the live view and `--once`. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from oomph.monitor.sample import Values
from oomph.run.directory.run_directory import RUNNING
from oomph.terminal.amounts import as_duration, as_size
from oomph.terminal.message import shown_line
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.runs import MONITORED
from oomph.watch.view import View

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


def size(size_bytes: int | None) -> str:
    """Format a number of bytes."""
    return UNKNOWN if size_bytes is None else as_size(size_bytes)


def step_time(seconds: float) -> str:
    """Format the duration of a step: "12.3 ms"."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def position(at: int | None, of: int | None) -> str:
    """Format a position, such as "3/10", or "3" if the end is unknown, or if an earlier attempt went beyond it."""
    if at is None:
        return UNKNOWN
    return f"{at}/{of}" if of is not None and at <= of else str(at)


BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-:=+*#"
"""The marks for terminals that cannot show the blocks."""


def sparkline(values: Sequence[float], width: int, top: float, marks: str = BLOCKS) -> str:
    """Return a line of marks for the newest `width` values, on a scale from 0 to `top`.

    The newest value comes last. Where there are no values yet, the line is blank.
    """
    shown = values[-width:] if width > 0 else ()
    line = "".join(_mark(value / top if top > 0 else 0.0, marks) for value in shown)
    return line.rjust(max(width, 0))


def _mark(share: float, marks: str) -> str:
    if share != share:
        return " "
    return marks[min(max(int(share * len(marks)), 0), len(marks) - 1)]


_LATE_SECONDS = 3.0


def state(job: Job) -> str:
    """Describe the job and its state."""
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    return shown_line(f"{job.command}  {job.state}{attempt}")


def progress(job: Job) -> str:
    """Describe the progress of the job."""
    parts = []
    if job.epoch is not None:
        parts.append(f"epoch {position(job.epoch, job.epochs)}")
    if job.step is not None:
        parts.append(f"step {position(job.step, job.steps_per_epoch)}")
    elif job.steps is not None:
        parts.append(f"{job.steps} steps")
    if job.eta_seconds is not None:
        parts.append(f"ETA {as_duration(job.eta_seconds)}")
    return "  ".join(parts) or _without_training(job.state)


def _without_training(state: str) -> str:
    """Describe a job that has not trained, which one that is over will not do any more."""
    return "training has not started" if state in (RUNNING, MONITORED) else "no training was seen"


def pace(job: Job) -> str:
    """Describe the pace of the job; empty if unknown."""
    parts = []
    if job.step_seconds is not None:
        parts.append(f"{step_time(job.step_seconds)} a step")
    if job.input_wait_ratio is not None:
        parts.append(f"input wait {percent(job.input_wait_ratio)}")
    if job.micro_batch is not None:
        parts.append(f"micro-batch {job.micro_batch}")
    if job.loss is not None:
        parts.append(f"loss {job.loss:.4g}")
    return "  ".join(parts)


def host(values: Values) -> str:
    """Format the load of the machine on one line; empty if it is not measured."""
    if not values:
        return ""
    return f"host  {memory(values)}  CPU {percent(values.get('cpu_ratio'))}"


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


def incident(each: ShownIncident) -> str:
    """Format an incident on one line, with the time of day and, for a finding that has ended, its duration."""
    clock = time_of_day(each.time)
    subject = f"{each.subject}: " if each.subject else ""
    return shown_line(f"{clock}  {each.fault}  {subject}{each.message}{_over(each)}")


def remedy(each: ShownIncident) -> str:
    """Return the remedy for an incident; empty for a finding that has ended."""
    return "" if each.ended is not None else shown_line(each.remedy)


def _over(each: ShownIncident) -> str:
    if each.ended is None:
        return ""
    seconds = each.ended - each.time
    return f" (over after {as_duration(seconds)})" if seconds >= 1 else " (over)"
