"""Job: a run as displayed, derived from the contents of its run directory at one moment. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oomph.journal.events import FitStarted, Recovered
from oomph.journal.journal import Event, last
from oomph.monitor.sample import Sample, Values
from oomph.monitor.straggler import Straggler
from oomph.protocol.progress import Progress
from oomph.run.directory.run_directory import FAILED, RUNNING, RunRecord
from oomph.run.directory.unfinished import STOPPED, UNFINISHED
from oomph.run.report.attempts import restarts_of, stopped
from oomph.watch.history import Series, rate, series
from oomph.watch.incidents import ShownIncident, incidents_of
from oomph.watch.workers import Trace, WorkerView, failures_of, workers_of

_STEPS, _EXAMPLES, _STEP_SECONDS, _INPUT_WAIT = (
    "steps_total",
    "examples_total",
    "step_seconds_total",
    "input_wait_seconds_total",
)
_RATE_SECONDS, _RATE_STEPS = 5.0, 3
"""The window of a rate: so many seconds, or so many steps if they take longer."""
_SILENT_SECONDS = 5.0
"""The time, in seconds, without a sample after which a source counts as silent. Samples arrive every second."""


@dataclass(frozen=True)
class Highlights:
    """The part of a journal that is displayed. A journal may be long, so this is read only when something is new."""

    epochs: int | None = None
    micro_batch: int | None = None
    restarts: int = 0
    stopped: bool = False
    incidents: tuple[ShownIncident, ...] = ()
    failures: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    """The workers that ended an attempt, by rank: the attempt, and how."""


def highlights_of(events: Sequence[Event], going_on: bool, run: str = "") -> Highlights:
    """Read the highlights of a run, whose path is `run`."""
    fit = last(events, FitStarted)
    return Highlights(
        epochs=None if fit is None else fit.epochs,
        micro_batch=_micro_batch(events),
        restarts=restarts_of(events),
        stopped=bool(stopped(events)),
        incidents=incidents_of(events, going_on, run),
        failures=failures_of(events),
    )


@dataclass(frozen=True)
class Run:
    """The contents of a run directory at one moment."""

    path: str
    record: RunRecord
    going_on: bool
    progress: Progress | None = None
    highlights: Highlights = field(default_factory=Highlights)
    samples: tuple[Sample, ...] = ()
    """The samples of the last few minutes, oldest first."""
    traces: tuple[Trace, ...] = ()
    """The view of each worker, if there are several."""
    straggler: Straggler | None = None
    """The worker that the others wait for."""


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
    samples_per_second: float | None = None
    """The samples trained on per second, over the last seconds."""
    input_wait_ratio: float | None = None
    """The share of the step time spent waiting for the next batch, from 0 to 1."""
    micro_batch: int | None = None
    loss: float | None = None
    restarts: int = 0
    """The number of times that oomph restarted the script, not counting starts by `--resume`."""
    incidents: tuple[ShownIncident, ...] = ()
    training: Values = field(default_factory=dict)
    process: Values = field(default_factory=dict)
    sampled: float | None = None
    """The Unix time of the newest sample, or None if there is none."""
    history: Mapping[str, Series] = field(default_factory=dict)
    """The last minutes of each value that is charted."""
    gpu_pids: frozenset[int] = frozenset()
    """The processes of the script that use memory on a GPU."""
    host: str = ""
    """The machine that runs the script; of several workers, the first."""
    workers: tuple[WorkerView, ...] = ()
    """The workers by rank, if there are several."""
    straggler: Straggler | None = None
    """The worker that the others wait for in every step, if the last minutes prove that there is one."""

    @property
    def name(self) -> str:
        """The name of the run directory."""
        return Path(self.run).name

    def newest(self, key: str) -> float | None:
        """Return the newest value of a chart, or None if the last samples do not have it."""
        return _newest(self.history, key, self.sampled)


def job_of(run: Run) -> Job:
    """Convert a run to a job for display."""
    values = run.samples[-1].training if run.samples else {}
    past = _one_attempt(run.samples)
    epoch, epochs, step = _position(run, values)
    per_epoch = _whole(values.get("steps_per_epoch"))
    sampled = run.samples[-1].time if run.samples else None
    history = _history(run.samples, _ratio(past, _STEP_SECONDS, _STEPS))
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
        step_seconds=_ratio(past, _STEP_SECONDS, _STEPS),
        samples_per_second=_newest(history, "samples_per_second", sampled) if run.going_on else None,
        input_wait_ratio=_at_most_one(_ratio(past, _INPUT_WAIT, _STEP_SECONDS)),
        micro_batch=_whole(values.get("micro_batch")) or run.highlights.micro_batch,
        loss=values.get("loss"),
        restarts=run.highlights.restarts,
        incidents=run.highlights.incidents,
        training=values,
        process=run.samples[-1].process if run.samples else {},
        sampled=sampled,
        history=history,
        gpu_pids=_gpu_pids(run.samples) if run.going_on else frozenset(),
        host=run.record.host,
        workers=_workers(run),
        straggler=run.straggler,
    )


def _workers(run: Run) -> tuple[WorkerView, ...]:
    if run.record.workers == 1 and len(run.traces) < 2:
        return ()
    return workers_of(run.traces, run.record.workers, run.record.attempts, run.going_on, run.highlights.failures)


def _history(samples: Sequence[Sample], step_seconds: float | None) -> Mapping[str, Series]:
    window = max(_RATE_SECONDS, _RATE_STEPS * (step_seconds or 0.0))
    training = [(sample.time, sample.training) for sample in samples]
    process = [(sample.time, sample.process) for sample in samples]
    found = {
        "samples_per_second": rate(samples, _EXAMPLES, "", window),
        "steps_per_second": rate(samples, _STEPS, "", window),
        "loss": series(training, "recent_loss") or series(training, "loss"),
        "input_wait_ratio": rate(samples, _INPUT_WAIT, _STEP_SECONDS, window),
        "pool": series(training, "allocator_in_use_bytes"),
        "resident_bytes": series(process, "resident_bytes"),
        "cpu_cores": series(process, "cpu_cores"),
    }
    return {key: points for key, points in found.items() if points}


def _newest(history: Mapping[str, Series], key: str, sampled: float | None) -> float | None:
    points = history.get(key)
    if not points or sampled is None or sampled - points[-1][0] > _SILENT_SECONDS:
        return None
    return points[-1][1]


def _gpu_pids(samples: Sequence[Sample]) -> frozenset[int]:
    """Return the script's processes in the lists of the last sample that has any."""
    for sample in reversed(samples):
        if any(gpu.processes is not None for gpu in sample.gpus):
            return frozenset(each.pid for gpu in sample.gpus for each in gpu.processes or () if each.own)
    return frozenset()


def _state(run: Run) -> str:
    """Return the state of the run, under the name used by `oomph explain`."""
    status = run.record.status
    if status == RUNNING and not run.going_on:
        return UNFINISHED
    return STOPPED if status == FAILED and run.highlights.stopped else status


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
    epochs = _whole(values.get("epochs")) or run.highlights.epochs
    if run.progress is not None and run.progress.fit >= 0:
        return run.progress.epoch + 1, epochs, run.progress.step
    return _whole(values.get("epoch")), epochs, _whole(values.get("step_of_epoch"))


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
