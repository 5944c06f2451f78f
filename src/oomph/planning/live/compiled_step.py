"""The `xla-gpu` engine: has XLA compile the step for a GPU at a few batch sizes, without that GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from oomph.planning.batch_sizes import can_compile_more, next_size
from oomph.planning.live import samples, subject
from oomph.planning.live.engine import Engine
from oomph.planning.live.figures import CompiledByXla, Figures
from oomph.planning.live.subject import OpenSizes
from oomph.planning.peaks import CompiledStep
from oomph.planning.plan import Device, Interval, Item
from oomph.planning.program import Program
from oomph.planning.verdict import FittingVerdict
from oomph.planning.xla.compiling import Chosen, Compiled, NotCompiledError, choose, compile_step, description, why_not
from oomph.process.available_memory import available_bytes
from oomph.terminal.wrapping import shortened

_MOST_SECONDS = 240.0
"""The maximum time, in seconds, for a single compilation."""
_NAMED = "oomph consults XLA's compiler once a GPU is specified"
_LONGEST = 200
"""The maximum length of a displayed error message, in characters."""


@dataclass(frozen=True)
class ModelStep:
    """The training step of a built model."""

    model: Any
    batch: Any
    """One batch, as passed to `train_step`."""
    engine: Engine
    """The simulation of the same step."""
    tell: Callable[[str], None]
    """Called with a description of the current activity, to show to the user."""
    sizes: OpenSizes = field(default_factory=OpenSizes)
    """Assumptions about sample sizes that the model leaves open."""
    data: tuple[Item, ...] = ()
    """The uses of device memory outside the step."""


def with_xla(
    figures: Figures, verdict: FittingVerdict, step: ModelStep, asked: Sequence[int]
) -> tuple[Figures, FittingVerdict]:
    """Return the estimates and the verdict for the step as XLA compiles it, or unchanged if XLA does not compile it.

    A doubt about the simulation, or its failed step, does not affect XLA's result; a doubt about sample sizes does.

    Args:
        figures: the estimates of the simulation.
        verdict: the verdict on the simulation.
        step: the step to compile.
        asked: the requested batch sizes, in increasing order.
    """
    device = verdict.device
    if not verdict.is_xla or (device is not None and not device.is_gpu):
        return figures, verdict
    if device is None:
        return figures, replace(verdict, not_compiled=why_not() or _NAMED)
    try:
        compiler = XlaCompiler(step, device)
        compiled = compiler.compiled(asked)
    except NotCompiledError as error:
        return figures, replace(verdict, not_compiled=str(error).rstrip("."))
    found = CompiledByXla(compiled, step.engine, compiler.peak_of_changed, step.data)
    return found, replace(verdict, compiled=compiler.words, doubt=step.sizes.doubt, failed="")


class XlaCompiler:
    """Compiles one step for one GPU.

    Raises:
        NotCompiledError: nothing can be compiled on this machine, or not for this GPU.
    """

    def __init__(self, step: ModelStep, device: Device) -> None:
        missing = why_not()
        if missing:
            raise NotCompiledError(missing)
        chosen = choose(device.capability)
        if chosen is None:
            raise NotCompiledError(f"XLA does not compile for compute capability {device.capability}")
        self._model, self._engine, self._tell = step.model, step.engine, step.tell
        self._device, self._chosen = device, chosen
        self._spec, self._size = samples.specification(step.batch), samples.size_of(step.batch)
        self._done: dict[int, Compiled] = {}
        self._began, self._last = time.monotonic(), 0.0
        """The start time of the first compilation, and the duration of the last one in seconds."""

    def compiled(self, asked: Sequence[int]) -> CompiledStep:
        """Compile the step at the largest requested size, and at one or two other sizes if time allows.

        Raises:
            NotCompiledError: the step does not compile at the largest requested size.
        """
        size = next_size((), asked, self._high, None)
        while size is not None:
            try:
                self._done[size] = self._compile(size)
            except NotCompiledError:
                if not self._done:
                    raise
                break
            if self._engine.only is not None or not self._has_time:
                break
            size = next_size(self._done, asked, self._high, self._device.usable)
        return self._step()

    def peak_of_changed(self, batch: int) -> Interval | None:
        """Return the peak of a step of `batch` samples with the model in its present, changed state.

        Returns None if there is no time left or the step does not compile.
        """
        if not self._has_time:
            return None
        try:
            compiled = self._compile(batch)
        except NotCompiledError:
            return None
        held = subject.held_by(self._model)
        return CompiledStep({batch: compiled}, held, self._inputs, self._convolution).peak(batch)

    @property
    def _has_time(self) -> bool:
        return can_compile_more(time.monotonic() - self._began, self._last)

    @property
    def words(self) -> tuple[str, ...]:
        """Remarks for the user on how the estimates were obtained."""
        version = next(iter(self._done.values())).version
        return (target_in_words(self._chosen, version), sizes_in_words(sorted(self._done)), _SAVERS)

    def _high(self, batch: int) -> int:
        return self._step().peak(batch).high

    def _step(self) -> CompiledStep:
        return CompiledStep(dict(self._done), self._engine.held, self._inputs, self._convolution)

    def _compile(self, batch: int) -> Compiled:
        self._tell(f"compiling a step of {batch} samples with XLA for {self._chosen.target.name}")
        began = time.monotonic()
        step = serialized(self._model, self._spec, self._size, batch)
        target = description(self._chosen.target, self._device.memory)
        compiled = compile_step(step, target, _MOST_SECONDS, available_bytes())
        self._last = time.monotonic() - began
        return compiled

    def _inputs(self, batch: int) -> int:
        return samples.bytes_of(samples.resized(self._spec, self._size, batch))

    def _convolution(self, batch: int) -> int:
        return largest_convolution(self._engine.program, batch)


def serialized(model: Any, spec: Any, size: int, batch: int) -> bytes:
    """Return the training step of `batch` samples as XLA's HLO; `spec` describes a batch of `size` samples.

    Raises:
        NotCompiledError: the step cannot be traced, or XLA cannot compile it.
    """
    try:
        wanted = samples.resized(spec, size, batch)
        strategy = model.distribute_strategy

        def step(*leaves: Any) -> Any:
            return strategy.run(model.train_step, args=(tf.nest.pack_sequence_as(wanted, leaves),))

        function = tf.function(step, autograph=False, jit_compile=True)
        found = function.experimental_get_compiler_ir(*tf.nest.flatten(wanted))(stage="hlo_serialized")
    except Exception as error:  # the user's own layers and losses may raise anything
        first = shortened((str(error).strip().splitlines() or [""])[0], _LONGEST)
        raise NotCompiledError(
            f"the step cannot be compiled with XLA for the plan: {type(error).__name__}: {first}"
        ) from error
    return bytes(found)


def largest_convolution(program: Program, batch: int) -> int:
    """Return the number of bytes that the step's largest convolution reads and writes; 0 if there is no convolution."""
    return max(
        (
            sum(program.sizes[tensor].at(batch) for tensor in (*operation.inputs, *operation.outputs))
            for operation in program.operations if operation.kind.startswith("Conv")
        ),
        default=0,
    )  # fmt: skip


_SAVERS = (
    "Savers marked as compiled were compiled by XLA. The others are simulated without XLA, and scaled to the compiled "
    "step."
)


def target_in_words(chosen: Chosen, version: str) -> str:
    """Describe the GPU that XLA compiled for, and the version of the compiler."""
    near = ", the nearest target" if chosen.is_nearest else ""
    return (
        f"XLA compiled this step without a device, for {chosen.target.words}{near}. The compiler is the XLA of jaxlib "
        f"{version}, not TensorFlow's own, and the estimates have not been compared with a real GPU."
    )


def sizes_in_words(sizes: Sequence[int]) -> str:
    """Describe which batch sizes were compiled, and how the estimates for other sizes are derived from them."""
    if len(sizes) == 1:
        return f"Only a batch of {sizes[0]:,} was compiled; other sizes have bounds that grow in proportion."
    listed = f"{', '.join(f'{size:,}' for size in sizes[:-1])} and {sizes[-1]:,}"
    return (
        f"Batches of {listed} were compiled. Between them the estimates are interpolated linearly; above them "
        "the upper bound grows in proportion to the batch."
    )
