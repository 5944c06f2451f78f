"""The words for a job, an incident and a process, shared by the live view and `--once`. Pure."""

from __future__ import annotations

import time

from oomph.monitor.sample import Values
from oomph.terminal.amounts import as_duration
from oomph.terminal.message import shown_line
from oomph.watch import figures
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.view import View

_LATE_SECONDS = 3.0


def state(job: Job) -> str:
    """The job and its state, in words."""
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    return shown_line(f"{job.command}  {job.state}{attempt}")


def progress(job: Job) -> str:
    """The progress of the job, in words."""
    parts = []
    if job.epoch is not None:
        parts.append(f"epoch {figures.position(job.epoch, job.epochs)}")
    if job.step is not None:
        parts.append(f"step {figures.position(job.step, job.steps_per_epoch)}")
    elif job.steps is not None:
        parts.append(f"{job.steps} steps")
    if job.eta_seconds is not None:
        parts.append(f"ETA {as_duration(job.eta_seconds)}")
    return "  ".join(parts) or "no training has begun"


def pace(job: Job) -> str:
    """The pace of the job, in words; empty when nothing is known."""
    parts = []
    if job.step_seconds is not None:
        parts.append(f"{figures.step_time(job.step_seconds)} a step")
    if job.input_wait_ratio is not None:
        parts.append(f"input wait {figures.percent(job.input_wait_ratio)}")
    if job.micro_batch is not None:
        parts.append(f"micro-batch {job.micro_batch}")
    if job.loss is not None:
        parts.append(f"loss {job.loss:.4g}")
    return "  ".join(parts)


def host(values: Values) -> str:
    """The load of the machine on one line; empty when it is not measured."""
    if not values:
        return ""
    return f"host  {figures.memory(values)}  CPU {figures.percent(values.get('cpu_ratio'))}"


def age(view: View) -> str:
    """The age of the newest sample, in words; empty when the sample is new."""
    seconds = 0.0 if view.sampled is None else view.time - view.sampled
    return f"last sample {as_duration(seconds)} ago" if seconds > _LATE_SECONDS else ""


def incident(each: ShownIncident) -> str:
    """An incident on one line, with its time of day, and how long a finding was there."""
    clock = time.strftime("%H:%M:%S", time.localtime(each.time))
    subject = f"{each.subject}: " if each.subject else ""
    return shown_line(f"{clock}  {each.fault}  {subject}{each.message}{_over(each)}")


def remedy(each: ShownIncident) -> str:
    """The remedy of an incident; empty for a finding that is over."""
    return "" if each.ended is not None else shown_line(each.remedy)


def _over(each: ShownIncident) -> str:
    if each.ended is None:
        return ""
    seconds = each.ended - each.time
    return f" (over after {as_duration(seconds)})" if seconds >= 1 else " (over)"
