"""The `probe` engine: runs steps on the plan's GPU if it is present, or uses records of earlier runs on such a GPU.

The steps run with Keras' own train function, fed as in `fit`. The process exits after the examination, so the steps may
change weights.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import as_out_of_memory
from oomph.planning.batch_sizes import PROBING, can_run_more, next_to_run, sizes_wanted
from oomph.planning.gpu_costs import GROWTH
from oomph.planning.gpu_list import is_same
from oomph.planning.live import samples
from oomph.planning.live.compiled_step import ModelStep
from oomph.planning.live.figures import Figures, Probed, ProbedSteps
from oomph.planning.peaks import Course, Peaks, grown_course, simulated_course
from oomph.planning.plan import Device
from oomph.planning.probe_record import Point, ProbeRecord, as_document, of_same_training, record_of
from oomph.planning.verdict import FittingVerdict
from oomph.reach.live.arrival import Reached
from oomph.reach.script_output import in_words as error_in_words
from oomph.reach.script_output import is_of_memory
from oomph.terminal.amounts import in_three_digits

_STEPS = 4
"""The number of steps to run. The first one also compiles, and tries out library algorithms."""
_MOST_STEP_SECONDS = 20.0
"""The time, in seconds, after which no further step starts; two steps run in any case."""
_LEAST_STEPS = 2


@dataclass(frozen=True)
class GpuRun:
    """The results of real steps at one batch size."""

    peak: int = 0
    """The highest peak of the steps: everything in TensorFlow's allocator, in bytes; 0 if no step succeeded."""
    ran_out: bool = False
    """True if a step ran out of the GPU's memory."""
    failed: str = ""
    """The reason why a step failed; empty if none failed, or if one ran out of memory."""


class GpuSteps:
    """Runs steps of a compiled and built model on the GPU.

    Args:
        model: the model.
        batch: one batch, as passed to `train_step`.
        given: the arguments of the call.
        by_hand: True if the script calls `train_on_batch`, which keeps the batch during a step.
    """

    def __init__(self, model: Any, batch: Any, given: Mapping[str, Any], by_hand: bool) -> None:
        self._model, self._batch, self._by_hand = model, batch, by_hand
        self._size = samples.size_of(batch)
        # Keep a reference: Keras copies all of the arrays to the GPU, and holds them there while it trains.
        is_known = not by_hand and (sum(samples.array_sizes(given)) > 0 or isinstance(given.get("x"), tf.data.Dataset))
        self._data = samples.dataset_of(model, given) if is_known else None
        self._is_open = leaves_size_open(self._data)
        self._memory = DeviceMemory.of_training_device()
        self.is_xla = bool(model.jit_compile) and not model.run_eagerly
        """True if Keras compiles the step with XLA on this machine."""
        self.is_loose = os.environ.get(GROWTH, "").lower() == "true"
        """True if TensorFlow claims the GPU's memory only as needed, by oomph's setting or the user's."""

    @property
    def limit(self) -> int:
        """The maximum number of bytes available to TensorFlow's allocator; 0 if unknown."""
        return self._memory.limit_bytes or 0

    def in_use(self) -> int:
        """Return the memory currently in use in TensorFlow's allocator, in bytes."""
        gc.collect()  # garbage left by tracing
        return self._memory.in_use_bytes() or 0

    def run(self, size: int) -> GpuRun:
        """Run a few steps of this many samples, stopping early if one fails."""
        try:
            peak = self._peak(size)
        except Exception as error:  # the user's own layers and losses may raise anything
            if as_out_of_memory(error) or is_of_memory(error):
                return GpuRun(ran_out=True)
            return GpuRun(failed=error_in_words(error))
        finally:
            gc.collect()
        return GpuRun(peak)

    def _peak(self, size: int) -> int:
        self._model.make_train_function(force=True)  # run each size as if it were the only one
        feed, until, peaks = self._feed(size), time.monotonic() + _MOST_STEP_SECONDS, []
        for number in range(_STEPS):
            if number >= _LEAST_STEPS and time.monotonic() >= until:
                break
            peaks.append(self._step(feed))
        return max(peaks)

    def _step(self, feed: Iterator[Any]) -> int:
        self._memory.reset_peak()
        logs = self._model.train_function(feed)
        for value in tf.nest.flatten(logs):
            np.asarray(value)  # waits for the GPU, whose errors may arrive late
        return self._memory.peak_bytes() or 0

    def _feed(self, size: int) -> Iterator[Any]:
        """Yield the data as Keras would iterate over it: the same samples repeated, kept on the host."""
        if self._by_hand:
            return itertools.repeat(samples.repeated(self._batch, self._size, size))
        data = self._dataset(size)
        return iter(self._model.distribute_strategy.experimental_distribute_dataset(data))

    def _dataset(self, size: int) -> Any:
        with tf.device("CPU:0"):
            leaves = tf.nest.flatten(self._batch)
            if all(len(leaf.shape) and leaf.shape[0] == self._size for leaf in leaves):
                whole = tf.data.Dataset.from_tensor_slices(self._batch).repeat()
                return whole.batch(size, drop_remainder=not self._is_open)
            return tf.data.Dataset.from_tensors(samples.repeated(self._batch, self._size, size)).repeat()


def gpu_name() -> str:
    """Return TensorFlow's name for the GPU that trains; empty if there is none."""
    if not tf.config.list_logical_devices("GPU"):
        return ""
    try:
        return str(tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[0])["device_name"])
    except (KeyError, IndexError, ValueError):
        return ""


def leaves_size_open(dataset: Any) -> bool:
    """True if the dataset passed to fit leaves the batch size open: the last batch may be smaller.

    Also true for None, which represents any source other than a dataset, such as a generator.
    """
    if dataset is None:
        return True
    leaves = tf.nest.flatten(dataset.element_spec)
    return not all(leaf.shape.rank and leaf.shape[0] is not None for leaf in leaves if hasattr(leaf, "shape"))


def steps_for(
    device: Device | None, arguments: Mapping[str, Any], reached: Reached, model: Any, batch: Any
) -> GpuSteps | None:
    """Return the steps to run, or None if the plan may not run any or is for a different GPU from TensorFlow's."""
    if not arguments.get("probe") or device is None or not (device.is_card and device.is_gpu):
        return None
    here = gpu_name()
    if not here or not is_same(here, device.name):
        return None
    steps = GpuSteps(model, batch, reached.fit_arguments, reached.kind == "train_on_batch")
    return steps if steps.limit else None


def kept_records(arguments: Mapping[str, Any]) -> list[ProbeRecord]:
    """Return the records of earlier plans on the same kind of GPU with the same TensorFlow version."""
    found = map(record_of, arguments.get("kept") or ())
    return [record for record in found if record.tensorflow == tf.__version__]


@dataclass(frozen=True)
class ProbeOutcome:
    """The estimates, the verdict on them, and the record to keep."""

    figures: Figures
    verdict: FittingVerdict
    record: Mapping[str, Any] | None = None
    """The record as JSON; None if nothing was measured."""


@dataclass
class Probing:
    """Runs the steps for one plan.

    Args:
        steps: runs steps of a given size on the GPU.
        step: the step to plan.
        figures: the estimates of the simulation.
        verdict: the verdict on those estimates.
    """

    steps: GpuSteps
    step: ModelStep
    figures: Figures
    verdict: FittingVerdict
    foreign: int = field(init=False)
    """The memory, in bytes, that the script holds on the GPU for purposes other than training, such as its data."""
    _ran: dict[int, int] = field(default_factory=dict)
    _ran_out: int | None = None
    _failed: str = ""

    def __post_init__(self) -> None:
        self.foreign = max(0, self.steps.in_use() - self.step.engine.held.total)

    def outcome(self, asked: Sequence[int]) -> ProbeOutcome:
        """Run the sizes worth running, and plan with the results; `asked` are the requested sizes, increasing."""
        self._run(asked)
        assert self.verdict.device is not None, "a probe is for a device"
        device = replace(self.verdict.device, usable=self.steps.limit)
        verdict = replace(self.verdict, device=device, doubt=self._doubt)
        if not self._ran and self._ran_out is None:
            return ProbeOutcome(self.figures, replace(verdict, not_compiled=self._failed))
        verdict = replace(verdict, measured=self._words(device.name))
        return ProbeOutcome(self._probed, verdict, self._record)

    def _run(self, asked: Sequence[int]) -> None:
        wanted = self._wanted(asked)
        began, size = time.monotonic(), next_to_run((), None, wanted, self._high, self.steps.limit)
        while size is not None:
            self.step.tell(f"{PROBING}: {size} samples")
            at = time.monotonic()
            ran = self.steps.run(size)
            if ran.failed:
                self._failed = f"a real step of {size} samples failed: {ran.failed}"
                return
            if ran.ran_out:
                self._ran_out = size
            elif ran.peak:
                self._ran[size] = ran.peak
            else:
                return  # TensorFlow does not report how much memory it used
            now = time.monotonic()
            if not can_run_more(now - began, now - at):
                return
            size = next_to_run(self._ran, self._ran_out, wanted, self._high, self.steps.limit)

    def _wanted(self, asked: Sequence[int]) -> tuple[int, ...]:
        only = self.step.engine.only
        if only is not None:
            return (only,)
        return sizes_wanted(self.steps.is_xla, asked, self._high(asked[-1]) <= self.steps.limit)

    def _high(self, batch: int) -> int:
        """Return the maximum number of bytes that a step of this size should need, to decide whether to run it."""
        if not self.steps.is_xla:
            return self._probed.peak(batch).high
        simulated = round(_XLA_TAKES * self.figures.peak(batch).high)
        # A bound in proportion to the batch is far above the memory that most steps need.
        return min(self._probed.peak(batch).high, simulated) if self._ran else simulated

    @property
    def _doubt(self) -> str:
        """The doubt about the estimates; steps that ran with XLA do not depend on the simulation."""
        return self._failed or (self.step.sizes.doubt if self.steps.is_xla else self.verdict.doubt)

    @property
    def _probed(self) -> Probed:
        return probed(
            self.step, self.figures, self.steps.is_xla,
            self._ran, self._ran_out, self.steps.limit, self.foreign, is_now=True, is_loose=self.steps.is_loose,
        )  # fmt: skip

    def _words(self, device: str) -> tuple[str, ...]:
        told = []
        if self._ran:
            told.append(
                f"Steps of {_listed(self._ran)} samples ran on this GPU, {_how(self.steps.is_xla)}, with Keras' own "
                "training function. Their peaks are measured, including the libraries' workspaces."
            )
            told.append(_others(self.steps.is_xla, len(self._ran)))
            if self.steps.is_loose:
                told.append(_LOOSELY)
        if self._ran_out is not None:
            told.append(f"A step of {self._ran_out:,} samples ran out of memory on this GPU.")
        told.append(
            f"TensorFlow itself reports that it can currently use {in_three_digits(self.steps.limit)} of {device}."
        )
        return (*told, _SAVERS)

    @property
    def _record(self) -> Mapping[str, Any] | None:
        engine = self.step.engine
        if not self._ran or not engine.identity or self.steps.is_loose:
            return None
        points = tuple(
            Point(size, peak, engine.simulated(size).expected) for size, peak in sorted(self._ran.items())
        )  # fmt: skip
        record = ProbeRecord(
            gpu_name(), tf.__version__, engine.name, self.steps.is_xla, engine.identity, self.steps.limit,
            self.foreign, points,
        )  # fmt: skip
        return as_document(record)


def with_kept(
    figures: Figures, verdict: FittingVerdict, step: ModelStep, records: Sequence[ProbeRecord]
) -> ProbeOutcome | None:
    """Return the outcome based on records of earlier runs of this very step on such a GPU, or None if there are none.

    An earlier run is evidence, not a promise: the upper bound decides whether the step fits.
    """
    if verdict.device is None:
        return None
    record = of_same_training(records, step.engine.identity, verdict.is_xla)
    if record is None:
        return None
    measured = {point.batch: point.measured for point in record.points}
    found = probed(step, figures, record.xla, measured, None, record.limit, record.foreign, is_now=False)
    doubt = step.sizes.doubt if record.xla else verdict.doubt
    words = (
        f"Steps of {_listed(measured)} samples of this training ran on {record.gpu} in an earlier plan, "
        f"{_how(record.xla)}; TensorFlow could use {in_three_digits(record.limit)} there.",
        _others(record.xla, len(measured)), _SAVERS,
    )  # fmt: skip
    device = replace(verdict.device, usable=min(record.limit, verdict.device.memory))
    return ProbeOutcome(found, replace(verdict, device=device, doubt=doubt, measured=words))


def probed(
    step: ModelStep, base: Figures, is_xla: bool, ran: Mapping[int, int], ran_out: int | None, limit: int, foreign: int,
    is_now: bool, is_loose: bool = False,
) -> Probed:  # fmt: skip
    """Return the estimates for a step that ran at the sizes in `ran`, with these peaks in bytes."""
    engine = step.engine
    spec, size = samples.specification(step.batch), samples.size_of(step.batch)

    def inputs(batch: int) -> int:
        return samples.bytes_of(samples.resized(spec, size, batch))

    def predicted(batch: int) -> int:
        return engine.at(batch).peak.expected + foreign

    def course() -> Course:
        held = engine.held.total + foreign
        if is_xla:
            return grown_course(ran, lambda batch: held + inputs(batch), predicted)
        return simulated_course(ran, predicted, held)

    peaks = Peaks(ran, course(), is_loose, limit if is_now else 0) if ran else None
    shown = ProbedSteps(peaks, tuple(sorted(ran)) if is_now else (), ran_out, limit, foreign)
    return Probed(shown, base, engine, is_xla, inputs)


_XLA_TAKES = 1.25
"""A compiled step should need at most this many times the memory that its operations need one by one.

If it needs more, it runs out of memory, which is also an answer.
"""
_LOOSELY = (
    "TensorFlow allocated memory as needed, because other processes hold some of this GPU's memory. It then packs "
    "memory less tightly, so a step may need much less than measured."
)
_SAVERS = "The savers are simulated, and scaled to the steps that ran."


def _how(is_xla: bool) -> str:
    return "compiled with XLA" if is_xla else "without XLA"


def _listed(sizes: Mapping[int, int]) -> str:
    *others, last = (f"{size:,}" for size in sorted(sizes))
    return f"{', '.join(others)} and {last}" if others else last


def _others(is_xla: bool, count: int) -> str:
    """Describe how the estimates for other sizes were obtained."""
    if not is_xla:
        return "At other sizes the values follow the simulation, corrected by these steps."
    if count == 1:
        return "At other sizes the values follow the simulation; the upper bound grows in proportion to the batch."
    return (
        "Between these sizes the values are interpolated linearly; above them the upper bound grows in proportion to "
        "the batch."
    )
