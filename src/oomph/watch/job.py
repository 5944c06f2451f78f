"""Job: a run as displayed, derived from the contents of its run directory at one moment. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from oomph.journal.events import FitStarted, Recovered
from oomph.journal.journal import Event, last
from oomph.monitor.sample import Sample, Values
from oomph.protocol.progress import Progress
from oomph.run.directory.run_directory import FAILED, RUNNING, RunRecord
from oomph.run.directory.unfinished import STOPPED, UNFINISHED
from oomph.run.report.attempts import restarts_of, stopped
from oomph.watch.incidents import ShownIncident, incidents_of

_STEPS = "steps_total"
_SILENT_SECONDS = 5.0
"""The time, in seconds, without a sample after which a source counts as silent. Samples arrive every second."""


@dataclass(frozen=True)
class Run:
    """The contents of a run directory at one moment."""

    path: str
    record: RunRecord
    going_on: bool
    progress: Progress | None = None
    events: Sequence[Event] = ()
    samples: tuple[Sample, ...] = ()
    """The samples of the last few minutes, oldest first."""


@dataclass(frozen=True)
class Job:
    """A run as displayed. Unknown fields are None."""

    run: str
    """The path of the run directory."""
    command: str
    state: str
    """The state: "running", "finished", "failed", "gave-up", "stopped", "preempted", "kept" or "unfinished"."""
    attempt: int = 0
    epoch: int | None = None
    """The number of the epoch, counted from 1."""
    epochs: int | None = None
    step: int | None = None
    """The number of steps completed in this epoch."""
    steps_per_epoch: int | None = None
    steps: int | None = None
    """The number of steps completed in the whole run."""
    eta_seconds: float | None = None
    """The time, in seconds, until the current fit ends."""
    step_seconds: float | None = None
    """The mean duration of a step over the last few minutes, in seconds."""
    input_wait_ratio: float | None = None
    """The share of the step time spent waiting for the next batch, from 0 to 1."""
    micro_batch: int | None = None
    loss: float | None = None
    restarts: int = 0
    """The number of times that oomph restarted the script, not counting starts by `--resume`."""
    incidents: tuple[ShownIncident, ...] = ()
    training: Values = field(default_factory=dict)
    process: Values = field(default_factory=dict)


def job_of(run: Run) -> Job:
    """Convert a run to a job for display."""
    values = run.samples[-1].training if run.samples else {}
    past = _one_attempt(run.samples)
    epoch, epochs, step = _position(run, values)
    per_epoch = _whole(values.get("steps_per_epoch"))
    return Job(
        run=run.path,
        command=shlex.join(run.record.command),
        state=_state(run),
        attempt=run.progress.attempt if run.progress else run.record.attempts,
        epoch=epoch,
        epochs=epochs,
        step=step,
        steps_per_epoch=per_epoch,
        steps=run.progress.steps if run.progress else _whole(values.get(_STEPS)),
        eta_seconds=_eta(past, epoch, epochs, step, per_epoch) if run.going_on else None,
        step_seconds=_ratio(past, "step_seconds_total", _STEPS),
        input_wait_ratio=_at_most_one(_ratio(past, "input_wait_seconds_total", "step_seconds_total")),
        micro_batch=_whole(values.get("micro_batch")) or _micro_batch(run.events),
        loss=values.get("loss"),
        restarts=restarts_of(run.events),
        incidents=incidents_of(run.events, run.going_on),
        training=values,
        process=run.samples[-1].process if run.samples else {},
    )


def _state(run: Run) -> str:
    """Return the state of the run, under the name used by `oomph explain`."""
    status = run.record.status
    if status == RUNNING and not run.going_on:
        return UNFINISHED
    return STOPPED if status == FAILED and stopped(run.events) else status


def silence(now: float, samples: Sequence[Sample]) -> float:
    """Return the seconds since the last sample if the source is silent, or 0 otherwise."""
    if not samples:
        return 0.0
    age = now - samples[-1].time
    return age if age > _SILENT_SECONDS else 0.0


def _position(run: Run, values: Values) -> tuple[int | None, int | None, int | None]:
    """Return the epoch, the number of epochs and the step.

    The progress board is accurate to the step, but the samples only to the second.
    """
    epochs = _whole(values.get("epochs")) or _epochs(run.events)
    if run.progress is not None and run.progress.fit >= 0:
        return run.progress.epoch + 1, epochs, run.progress.step
    return _whole(values.get("epoch")), epochs, _whole(values.get("step_of_epoch"))


def _epochs(events: Sequence[Event]) -> int | None:
    fit = last(events, FitStarted)
    return None if fit is None else fit.epochs


def _micro_batch(events: Sequence[Event]) -> int | None:
    """Return the micro-batch size chosen after the last out-of-memory error in the current fit, if any."""
    for event in reversed(events):
        match event.fact:
            case FitStarted():
                return None
            case Recovered(micro_batch=size):
                return size
    return None


def _one_attempt(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples with step counts since the counters last restarted."""
    counted = [sample for sample in samples if _STEPS in sample.training]
    steps = [sample.training[_STEPS] for sample in counted]
    begin = max((at for at in range(1, len(steps)) if steps[at] < steps[at - 1]), default=0)
    return counted[begin:]


def _ratio(samples: Sequence[Sample], above: str, below: str) -> float | None:
    """Return the growth of one counter per unit of growth of another."""
    counted = [sample.training for sample in samples if above in sample.training and below in sample.training]
    grown = counted[-1][below] - counted[0][below] if counted else 0.0
    return (counted[-1][above] - counted[0][above]) / grown if grown > 0 else None


def _eta(
    samples: Sequence[Sample], epoch: int | None, epochs: int | None, step: int | None, per_epoch: int | None
) -> float | None:
    """Predict the seconds until the fit's last step at the pace of recent steps, or return None if unknown."""
    if epoch is None or epochs is None or step is None or per_epoch is None or not samples:
        return None
    done = samples[-1].training[_STEPS] - samples[0].training[_STEPS]
    left = max((epochs - epoch + 1) * per_epoch - step, 0)
    return left * (samples[-1].time - samples[0].time) / done if done > 0 else None


def _at_most_one(ratio: float | None) -> float | None:
    return None if ratio is None else min(max(ratio, 0.0), 1.0)


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < 2**63 else None
