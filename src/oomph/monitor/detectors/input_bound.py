"""A training that waits for its input pipeline, and the share of the time that costs.

Thresholds: 5 % of the step time is a notice, 20 % a warning, as in TensorFlow's own profiler (XProf). On a GPU the wait
of the host may hide behind queued work, so there the GPU has to be busy for less than 70 % of the time. The first step
of a fit, which fills the buffers, does not count, and nothing is said before 30 seconds of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.window import Window

FAULTS = ("input-pipeline",)
EVERY = 5.0
_SECONDS = 60.0
_LEAST_SECONDS, _LEAST_STEPS = 30.0, 5
"""Of steps that were measured: before that, buffers may still be filling."""
_NOTICED, _BOUND = 0.05, 0.20
_BUSY = 0.7
"""A GPU that is busy for this share of the time has enough to do."""
_REMEDY = (
    "Prepare batches ahead: dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE) at"
    " the end, .cache() where the data fit in memory; workers= and use_multiprocessing=True for a PyDataset"
)


def find(window: Window) -> Iterator[Finding]:
    """Whether the steps of the last minute waited for input."""
    measured = _of_one_process([sample for sample in window.last(_SECONDS) if _is_measured(sample)])
    if not measured:
        return
    steps, seconds, waited = (
        measured[-1].training[key] - measured[0].training[key]
        for key in ("steps_total", "step_seconds_total", "input_wait_seconds_total")
    )
    if seconds < _LEAST_SECONDS or steps < _LEAST_STEPS:
        return
    share, busy = min(1.0, waited / seconds), _busy(measured)
    if share < _NOTICED or (busy is not None and busy >= _BUSY):
        return
    yield Finding(
        fault="input-pipeline",
        subject="input pipeline",
        message=_message(share, seconds / steps, busy),
        severity="warning" if share >= _BOUND else "notice",
        evidence={
            "share": round(share, 3),
            "waited_seconds": round(waited, 3),
            "step_seconds": round(seconds, 3),
            "steps": int(steps),
        }
        | ({} if busy is None else {"gpu_utilization": round(busy, 3)}),
        remedy=_REMEDY,
    )


def _message(share: float, step: float, busy: float | None) -> str:
    idle = "" if busy is None else f", and the GPU is busy for {busy:.0%} of it"
    return (
        f"the training waits for its data for {share:.0%} of the time"
        f" ({_milliseconds(share * step)} of each {_milliseconds(step)} step){idle}"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2g} s"


def _is_measured(sample: Sample) -> bool:
    return {"steps_total", "step_seconds_total", "input_wait_seconds_total"} <= sample.training.keys()


def _of_one_process(samples: list[Sample]) -> list[Sample]:
    """The samples since the counters last began anew."""
    begin = 0
    for number in range(1, len(samples)):
        if samples[number].training["step_seconds_total"] < samples[number - 1].training["step_seconds_total"]:
            begin = number
    return samples[begin:]


def _busy(samples: list[Sample]) -> float | None:
    """The mean utilization of the GPUs that the script uses; None where it uses none, or none is known."""
    known = [gpu for sample in samples for gpu in sample.gpus if gpu.processes is not None]
    own = {gpu.uuid for gpu in known if any(process.own for process in gpu.processes or ())}
    if known and not own:
        return None
    used = [gpu for sample in samples for gpu in sample.gpus if not own or gpu.uuid in own]
    values = [value for gpu in used if (value := _utilization(gpu)) is not None]
    return fmean(values) if values else None


def _utilization(gpu: GpuSample) -> float | None:
    return gpu.values.get("utilization_ratio")
