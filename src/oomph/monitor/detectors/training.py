"""Detects faults in the training metrics: non-finite values, loss jumps, input waits, and stalls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.window import Window


@detector("nan-loss", every=1.0)
def not_finite(window: Window) -> Iterator[Finding]:
    """A loss or weights that are NaN or infinite.

    Any such value is a finding. Since a ReLU can turn NaN into 0, the weights are checked as well as the loss.
    """
    training = window.newest.training
    weights, loss = int(training.get("not_finite_weights", 0)), training.get("not_finite_loss", 0) > 0
    where = _where(training.get("epoch"), training.get("step_of_epoch"))
    are = "one weight is" if weights == 1 else f"{weights:,} weights are"
    if loss:
        also = f", and {are} as well" if weights else ""
        yield _not_finite("loss", f"the loss is NaN or infinite{where}{also}", weights)
    elif weights:
        shown = f" although the loss is {training['loss']:.4g}" if "loss" in training else ""
        yield _not_finite("weights", f"{are} NaN or infinite{where}{shown}", weights)


def _not_finite(subject: str, message: str, weights: int) -> Finding:
    return Finding("nan-loss", subject, message, "critical", {"not_finite_weights": weights})


def _where(epoch: float | None, step: float | None) -> str:
    return "" if epoch is None or step is None else f" at epoch {epoch:.0f}, step {step:.0f}"


_INPUT_SECONDS = 60.0
_LEAST_SECONDS, _LEAST_STEPS = 30.0, 5
"""The time, in seconds, and the number of steps to measure before judging. Until then, buffers may still be filling."""
_NOTICED, _BOUND = 0.05, 0.20
_BUSY = 0.7
"""The utilization at or above which a GPU is considered busy enough."""
_INPUT_REMEDY = (
    "Prepare batches in advance: dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE)"
    " at the end, .cache() if the data fits in memory; workers= and use_multiprocessing=True for a PyDataset"
)


@detector("slow-input", every=5.0)
def input_bound(window: Window) -> Iterator[Finding]:
    """Training that waits for its input pipeline, and the share of time lost to it.

    Thresholds: 5 % of the step time is a notice and 20 % a warning, as in TensorFlow's own profiler (XProf). On a GPU,
    queued work may hide the host's wait, so the GPU must also be busy for less than 70 % of the time. The first step of
    a fit, which fills the buffers, does not count, and nothing is reported before 30 seconds of steps.
    """
    measured = _of_one_process([sample for sample in window.last(_INPUT_SECONDS) if _is_measured(sample)])
    if not measured:
        return
    steps, seconds, waited = (
        measured[-1].training[key] - measured[0].training[key]
        for key in ("steps_total", "step_seconds_total", "input_wait_seconds_total")
    )
    if seconds < _LEAST_SECONDS or steps < _LEAST_STEPS:
        return
    share, busy = min(1.0, waited / seconds), _gpu_use(measured)
    if share < _NOTICED or (busy is not None and busy >= _BUSY):
        return
    yield Finding(
        fault="slow-input",
        subject="input pipeline",
        message=_waits(share, seconds / steps, busy),
        severity="warning" if share >= _BOUND else "notice",
        evidence={
            "share": round(share, 3),
            "waited_seconds": round(waited, 3),
            "step_seconds": round(seconds, 3),
            "steps": int(steps),
        }
        | ({} if busy is None else {"gpu_utilization": round(busy, 3)}),
        remedy=_INPUT_REMEDY,
    )


def _waits(share: float, step: float, busy: float | None) -> str:
    idle = "" if busy is None else f", and the GPU is busy {busy:.0%} of the time"
    return (
        f"training spends {share:.0%} of its time waiting for data"
        f" ({_milliseconds(share * step)} of each {_milliseconds(step)} step){idle}"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2g} s"


def _is_measured(sample: Sample) -> bool:
    return {"steps_total", "step_seconds_total", "input_wait_seconds_total"} <= sample.training.keys()


def _of_one_process(samples: list[Sample]) -> list[Sample]:
    """Return the samples since the counters last restarted."""
    begin = 0
    for number in range(1, len(samples)):
        if samples[number].training["step_seconds_total"] < samples[number - 1].training["step_seconds_total"]:
            begin = number
    return samples[begin:]


def _gpu_use(samples: list[Sample]) -> float | None:
    """Return the mean utilization, from 0 to 1, of the script's GPUs, or None if it has no GPU or no value is known."""
    known = [gpu for sample in samples for gpu in sample.gpus if gpu.processes is not None]
    own = {gpu.uuid for gpu in known if any(process.own for process in gpu.processes or ())}
    if known and not own:
        return None
    used = [gpu for sample in samples for gpu in sample.gpus if not own or gpu.uuid in own]
    values = [value for gpu in used if (value := _utilization(gpu)) is not None]
    return fmean(values) if values else None


def _utilization(gpu: GpuSample) -> float | None:
    return gpu.values.get("utilization_ratio")


_IDLE_SECONDS = 300.0
_IDLE_STEPS = 20
_IDLE_GPU, _IDLE_CORES = 0.01, 0.1


@detector("hang", every=30.0)
def gpu_idle(window: Window) -> Iterable[Finding]:
    """Training that makes no progress while its GPUs and processes are idle.

    This is for training watched by `oomph.Monitor` alone: under `oomph run`, the supervisor detects hangs sooner, using
    the time limits of each phase. Threshold: at least 5 minutes and the time of 20 steps, oomph's own. Compiling,
    tracing and reading data keep a core busy, and validation keeps the GPU busy, so both must be idle.
    """
    earlier, training = window.ago(_IDLE_SECONDS), window.newest.training
    stands = window.newest.time - earlier.time
    steps = training.get("steps_total", 0.0)
    if (
        stands < _IDLE_SECONDS
        or not steps
        or not window.newest.gpus
        or not (_is_fitting(window.newest) and _is_fitting(earlier))
    ):
        return
    step_seconds = training.get("step_seconds_total", 0.0) / steps
    if earlier.training.get("steps_total") != steps or stands < _IDLE_STEPS * step_seconds:
        return
    if all(_is_idle(sample) for sample in window.last(_IDLE_SECONDS)):
        text = f"no step for {stands / 60:.0f} minutes, and neither the GPUs nor the script's processes are busy"
        evidence = {"seconds": stands, "steps_total": steps}
        remedy, without_run = "See where it is stuck: py-spy dump --pid PID", "oomph run does that for you"
        yield Finding("hang", "training", text, "notice", evidence, remedy, without_run=without_run)


def _is_fitting(sample: Sample) -> bool:
    """True if a fit is running. A fit removes this key when it ends."""
    return "epochs" in sample.training


def _is_idle(sample: Sample) -> bool:
    uses = [gpu.values.get("utilization_ratio", 1.0) for gpu in sample.gpus]
    return max(uses) <= _IDLE_GPU and sample.process.get("cpu_cores", 1.0) <= _IDLE_CORES


_RECENT = 30
"""The number of recent readings to search for a jump, which is more than arrive between two checks."""
_LOSS_SECONDS = 1800.0
_USUAL, _LEAST_USUAL = 600, 30
"""The number of earlier readings that define the usual loss, and the minimum number needed to do so: a minute is over
before a jump counts. In the first minutes the loss of the first steps is among them, so a jump must exceed that."""
_WIDTH = 5
"""The maximum number of readings in a short jump."""
_CALM = 3
"""The number of usual readings after which a jump counts as ended."""
_FAR, _NEAR = 12.0, 6.0
"""The deviations above the median that count as a jump, and those that still count as usual."""
_BEYOND = 3.0
"""The minimum jump, in multiples of the distance between the highest usual loss and the median."""
_TIMES = 5.0
"""The minimum loss that counts as a jump, in multiples of the median. A hard batch has two or three times the usual
loss."""
_LEAST_DEVIATION = 0.01
"""The minimum deviation, as a share of the median."""


class _Usual(NamedTuple):
    """The usual loss: its median, deviation and maximum."""

    middle: float
    deviation: float
    highest: float

    @property
    def jump(self) -> float:
        """The minimum loss that counts as a jump."""
        beyond = self.middle + _BEYOND * (self.highest - self.middle)
        return max(self.middle + _FAR * self.deviation, beyond, _TIMES * self.middle)

    @property
    def calm(self) -> float:
        """The highest loss that still counts as usual."""
        return max(self.middle + _NEAR * self.deviation, self.highest)


@detector("loss-spike", every=20.0)
def loss_spike(window: Window) -> Iterator[Finding]:
    """A loss that jumps briefly, or rises to stay, above all earlier values.

    The mean loss between two readings is examined. Its median and median absolute deviation describe the usual loss,
    including the noise of batches, however heavy-tailed, and anything that recurs. Restarting the learning rate also
    raises the loss, but then the loss stays up, and is no higher than at the start of training. A jump therefore counts
    only if it is over within five readings, or is higher than ever before. Thresholds, oomph's own: 12 deviations, five
    times the median, and three times as far from the median as the highest of the last 600 readings.
    """
    losses = _readings(window)
    before, recent = losses[-_USUAL - _RECENT : -_RECENT], losses[-_RECENT:]
    if len(before) < _LEAST_USUAL or max(recent) <= max(before):
        return
    usual = _usual(before)
    message = _jump(usual, recent) or _rise(usual, recent)
    if message:
        yield Finding("loss-spike", "loss", message, "notice", remedy=_SPIKE_REMEDY)


_SPIKE_REMEDY = (
    "Look at the batches in these steps; gradient clipping (clipnorm=1.0 on the optimizer) limits the effect of a "
    "single batch"
)


def _jump(usual: _Usual, recent: Sequence[float]) -> str:
    """Return the message if the loss jumped and recovered within a few readings; empty otherwise."""
    begin = next((n for n, loss in enumerate(recent) if loss >= usual.jump), len(recent))
    width = next((n for n, loss in enumerate(recent[begin:]) if loss <= usual.calm), len(recent))
    back = recent[begin + width : begin + width + _CALM]
    if width > _WIDTH or len(back) < _CALM or max(back) > usual.calm:
        return ""
    return f"the loss jumped from {usual.middle:.4g} to {max(recent[begin : begin + width]):.4g} and recovered"


def _rise(usual: _Usual, recent: Sequence[float]) -> str:
    """Return the message if the loss has risen higher than ever before and stayed there; empty otherwise."""
    if min(recent[-_WIDTH - 1 :]) < usual.jump:
        return ""
    return f"the loss has risen from {usual.middle:.4g} to {recent[-1]:.4g}, higher than ever before"


def _usual(losses: Sequence[float]) -> _Usual:
    middle = median(losses)
    deviation = 1.4826 * median(abs(loss - middle) for loss in losses)
    return _Usual(middle, max(deviation, _LEAST_DEVIATION * abs(middle)), max(losses))


def _readings(window: Window) -> list[float]:
    """Return the distinct readings of the loss in the last half hour, excluding any that are not finite."""
    losses, step = [], -1.0
    for sample in window.last(_LOSS_SECONDS):
        loss, now = sample.training.get("recent_loss"), sample.training.get("steps_total", 0.0)
        if loss is not None and abs(loss) != float("inf") and now != step:
            losses.append(loss)
            step = now
    return losses
