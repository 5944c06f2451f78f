"""The engine `probe`: runs steps on the plan's GPU if it is here, or uses records of earlier runs on one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from oomph.planning.estimate import Device
from oomph.planning.gpu_list import is_same
from oomph.planning.live import samples
from oomph.planning.live.compiled_step import ModelStep
from oomph.planning.live.figures import Figures
from oomph.planning.live.gpu_steps import GpuSteps, gpu_name
from oomph.planning.live.probed_figures import Probed, ProbedSteps
from oomph.planning.probe.peaks import Course, Peaks, grown_course, simulated_course
from oomph.planning.probe.record import Point, ProbeRecord, as_document, of_same_training, record_of
from oomph.planning.probe.sizes_to_run import PROBING, is_time_left, next_to_run, sizes_wanted
from oomph.planning.verdict import FittingVerdict
from oomph.reach.live.reached import Reached
from oomph.terminal.amounts import in_three_digits


def steps_for(
    device: Device | None, arguments: Mapping[str, Any], reached: Reached, model: Any, batch: Any
) -> GpuSteps | None:
    """The steps to run; None if the plan may run none, or is for another GPU than the one TensorFlow trains on."""
    if not arguments.get("probe") or device is None or not (device.is_card and device.is_gpu):
        return None
    here = gpu_name()
    if not here or not is_same(here, device.name):
        return None
    steps = GpuSteps(model, batch, reached.fit_arguments, reached.kind == "train_on_batch")
    return steps if steps.limit else None


def kept_records(arguments: Mapping[str, Any]) -> list[ProbeRecord]:
    """The records of earlier plans on the same kind of GPU with the same version of TensorFlow."""
    found = map(record_of, arguments.get("kept") or ())
    return [record for record in found if record.tensorflow == tf.__version__]


@dataclass(frozen=True)
class ProbeOutcome:
    """The figures, the verdict on them, and the record to keep."""

    figures: Figures
    verdict: FittingVerdict
    record: Mapping[str, Any] | None = None
    """The record as JSON; None if nothing was measured."""


@dataclass
class Probing:
    """Runs the steps of one plan.

    Args:
        steps: runs steps of a given size on the GPU.
        step: the step that is planned.
        figures: the figures of the simulation.
        verdict: the verdict on them.
    """

    steps: GpuSteps
    step: ModelStep
    figures: Figures
    verdict: FittingVerdict
    foreign: int = field(init=False)
    """Bytes that the script holds on the GPU besides the training, such as its data."""
    _ran: dict[int, int] = field(default_factory=dict)
    _ran_out: int | None = None
    _failed: str = ""

    def __post_init__(self) -> None:
        self.foreign = max(0, self.steps.in_use() - self.step.engine.held.total)

    def outcome(self, asked: Sequence[int]) -> ProbeOutcome:
        """Run the sizes that are worth it, and plan with the results; `asked` are the plan's batch sizes, rising."""
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
                return  # TensorFlow does not say what it took
            now = time.monotonic()
            if not is_time_left(now - began, now - at):
                return
            size = next_to_run(self._ran, self._ran_out, wanted, self._high, self.steps.limit)

    def _wanted(self, asked: Sequence[int]) -> tuple[int, ...]:
        only = self.step.engine.only
        if only is not None:
            return (only,)
        return sizes_wanted(self.steps.is_xla, asked, self._high(asked[-1]) <= self.steps.limit)

    def _high(self, batch: int) -> int:
        """The most bytes that a step of this size should take, to decide whether to run it."""
        if not self.steps.is_xla:
            return self._probed.peak(batch).high
        simulated = round(_XLA_TAKES * self.figures.peak(batch).high)
        # The bound in proportion to the batch is far above what most steps take.
        return min(self._probed.peak(batch).high, simulated) if self._ran else simulated

    @property
    def _doubt(self) -> str:
        """The doubt about the figures; steps run with XLA do not depend on the simulation."""
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
                f"Steps of {_listed(self._ran)} samples ran on this GPU, {_how(self.steps.is_xla)}, with the function "
                "that Keras trains with. Their peaks are measured, with the libraries' workspaces."
            )
            told.append(_others(self.steps.is_xla, len(self._ran)))
            if self.steps.is_loose:
                told.append(_LOOSELY)
        if self._ran_out is not None:
            told.append(f"A step of {self._ran_out:,} samples ran out of memory on this GPU.")
        told.append(
            f"TensorFlow itself says that it gets {in_three_digits(self.steps.limit)} of {device} at this moment."
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
    """The outcome from records of earlier runs of this very step on such a GPU; None if there are none.

    An earlier run is evidence, not a promise: the high end of the interval decides whether it fits.
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
        f"{_how(record.xla)}; TensorFlow got {in_three_digits(record.limit)} there.",
        _others(record.xla, len(measured)), _SAVERS,
    )  # fmt: skip
    device = replace(verdict.device, usable=min(record.limit, verdict.device.memory))
    return ProbeOutcome(found, replace(verdict, device=device, doubt=doubt, measured=words))


def probed(
    step: ModelStep, base: Figures, is_xla: bool, ran: Mapping[int, int], ran_out: int | None, limit: int, foreign: int,
    is_now: bool, is_loose: bool = False,
) -> Probed:  # fmt: skip
    """The figures of a step that ran at the sizes in `ran`, with these peaks in bytes."""
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
"""A compiled step should take at most this many times the memory that its operations take one by one. If it takes more,
it runs out of memory, which is an answer too."""
_LOOSELY = (
    "TensorFlow took the memory as it was needed, since others hold some of this GPU, and then divides it less well: "
    "much less may be enough."
)
_SAVERS = "What saves memory is simulated, and scaled to the steps that ran."


def _how(is_xla: bool) -> str:
    return "compiled with XLA" if is_xla else "without XLA"


def _listed(sizes: Mapping[int, int]) -> str:
    *others, last = (f"{size:,}" for size in sorted(sizes))
    return f"{', '.join(others)} and {last}" if others else last


def _others(is_xla: bool, count: int) -> str:
    """A sentence on where the figures for other sizes come from."""
    if not is_xla:
        return "At other sizes the figures follow the simulation, corrected by these steps."
    if count == 1:
        return "At other sizes the figures follow the simulation; the upper bound grows in proportion to the batch."
    return "Between these sizes the figures lie on a line; above them the upper bound grows in proportion to the batch."
