"""Judges whether training fits; provides accuracy statements, precision warnings and notes on omissions. Pure.

Source for bfloat16: NVIDIA, CUDA C++ Programming Guide, "Arithmetic Instructions" and "Element Types and Matrix Sizes":
tensor cores support it with compute capability 8.0 or higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oomph.planning.plan import Device, Estimate, Fitting, Interval

_BFLOAT16 = 8.0
"""The lowest compute capability of GPUs with fast bfloat16 arithmetic."""
ACCURACY = {
    "graph": "simulated from the traced step. On the CPU, on the models used to develop it, half of the peaks were off "
    "by more than 7.6 %, two small ones by 54 and 85 %",
    "dry-run": "simulated, and corrected by real steps of a few batch sizes. On the CPU, on 16 models that were not "
    "used to develop it, half of the peaks were off by more than 2.4 %, none of 48 by more than 20 %. TensorFlow "
    "orders the operations of a step differently in each process, so the peaks differ by a few %, and for one known "
    "model threefold",
    "probe": "real steps on the GPU itself, at the sizes listed in the notes. On a fake GPU, whose kernels compute "
    "nothing, fits of two small models without XLA and of one with it used up to 12 % more or less memory "
    "than measured. This has not been tried on a real GPU yet",
    "xla-gpu": "compiled by XLA for a GPU that was not present. It is not yet known how far off the estimates are",
}
"""The error of each engine, as in docs/measurements.md."""
_XLA_SAVES = 0.7
"""The assumed minimum memory of XLA's program for a step, as a fraction of what its operations use one by one.

The lowest measured fraction was 0.86.
"""
_XLA_ADDS = 8
"""A step that XLA would compile certainly fits if this many times its upper bound without XLA fits.

The highest factor seen is 1.6 times the memory that the operations used one by one: a transformer in its first compiled
step, on the CPU. No upper limit is known, so this factor is five times as high.
"""
_MOST_UNKNOWN = 3
_WITHOUT_XLA = "set jit_compile=False in compile(), plan again, and train with that"


def suits_bfloat16(device: Device | None) -> bool:
    """True if the device has fast bfloat16 arithmetic, or if its capability is unknown."""
    number = _capability(device)
    return number is None or number >= _BFLOAT16


def warnings(device: Device | None, policies: Iterable[str]) -> tuple[str, ...]:
    """Return warnings about using these dtype policies on this device, one sentence each."""
    if device is None or suits_bfloat16(device):
        return ()
    names = sorted({name for name in policies if "bfloat16" in name})
    if not names:
        return ()
    return (
        f"{device.name} (compute capability {device.capability}) has no fast bfloat16 arithmetic, which needs 8.0 "
        f"(Ampere) or newer: {names[0]} saves memory but is slow; use mixed_float16.",
    )


def _capability(device: Device | None) -> float | None:
    try:
        return float(device.capability) if device is not None else None
    except ValueError:
        return None  # the capability is unknown


@dataclass(frozen=True)
class FittingVerdict:
    """The verdict on whether training fits on one device."""

    device: Device | None
    is_xla: bool
    """True if Keras would compile the step with XLA on that device."""
    held: int
    """The number of bytes that are in use at any batch size."""
    doubt: str = ""
    """A description of an unknown that may change every estimate; empty if there is none."""
    compiled: tuple[str, ...] = ()
    """Remarks on estimates for the step as compiled by XLA."""
    measured: tuple[str, ...] = ()
    """Remarks on estimates from real steps on the device itself."""
    seen: tuple[str, ...] = ()
    """Remarks on other training runs on that device."""
    failed: str = ""
    """A real step that failed although memory was left, so that using less would not help; empty if none did."""
    not_compiled: str = ""
    """The reason why XLA did not compile the step, as a clause without a full stop; empty if not worth mentioning."""

    @property
    def is_hidden(self) -> bool:
        """True if XLA chooses the buffers, and its step was neither compiled nor measured."""
        return self.is_xla and not self.compiled and not self.measured

    @property
    def can_say_yes(self) -> bool:
        """True if the engine can see everything that decides whether a batch fits."""
        return self.device is not None and not self.is_hidden and not self.doubt

    def fits(self, peak: Interval) -> Fitting:
        """Decide whether the peak fits.

        The answer is yes only if the upper bound fits, and no only if the midpoint between the lower bound and the
        expected peak does not. If XLA decides but has not compiled the step, both answers need a wide margin.
        """
        if self.device is None:
            return Fitting.UNKNOWN
        if self.is_hidden:
            least = max(self.held, round(_XLA_SAVES * peak.low))
            if least > self.device.usable:
                return Fitting.NO
            has_room = self.device.usable >= _XLA_ADDS * max(self.held, peak.high)
            return Fitting.YES if has_room and not self.doubt else Fitting.UNKNOWN
        if peak.high <= self.device.usable:
            return Fitting.UNKNOWN if self.doubt else Fitting.YES
        return Fitting.NO if (peak.low + peak.expected) // 2 > self.device.usable else Fitting.UNKNOWN


def why_open(verdict: FittingVerdict) -> str:
    """Explain why it is unknown which batch fits, and how to find out; empty if known or only a device is missing."""
    if verdict.failed:
        return verdict.failed
    if verdict.is_hidden:
        is_gpu = verdict.device is None or verdict.device.is_gpu
        who = "Keras compiles with XLA if it sees a GPU" if is_gpu else "this step is compiled with XLA"
        asked = f"{verdict.not_compiled}; to find out without it" if verdict.not_compiled else "to find out"
        return f"{who}, and XLA chooses the buffers itself; {asked}, {_WITHOUT_XLA}"
    return verdict.doubt


def room_for_xla(verdict: FittingVerdict, estimates: Sequence[Estimate]) -> str:
    """State how much memory XLA may use before the largest fitting batch no longer fits; empty if irrelevant."""
    fitting = [estimate for estimate in estimates if estimate.fits is Fitting.YES]
    if not fitting or not verdict.is_hidden or verdict.device is None:
        return ""
    largest = fitting[-1]
    times = verdict.device.usable // max(1, largest.peak.high)
    return (
        f"A batch of {largest.batch:,} fits unless XLA uses more than {times:,} times the upper bound without XLA; the "
        "highest factor seen so far is 1.6, and oomph reports that a batch fits if there is room for a factor of "
        f"{_XLA_ADDS}."
    )


def notes(verdict: FittingVerdict, unknown: Sequence[str], estimates: Sequence[Estimate] = ()) -> tuple[str, ...]:
    """Return the omissions and assumptions of the estimates, one sentence each."""
    said = [*verdict.compiled, *verdict.measured, *verdict.seen]
    if verdict.is_hidden:
        said.append("The estimates are for the step without XLA, as with jit_compile=False.")
        said += [text for text in [room_for_xla(verdict, estimates)] if text]
    if verdict.device is not None and verdict.device.is_card and not verdict.measured:
        said.append(
            "CUDA's context, TensorFlow's reserve and the libraries' workspaces are assumed: they were not measured on "
            "this GPU."
        )
    if verdict.device is not None and verdict.device.is_gpu and not verdict.device.is_card:
        said.append(
            "An amount of memory is treated as fully available to TensorFlow; on a card of that size, 1 to 2.5 GiB "
            "less is available."
        )
    said += [f"{text[0].upper()}{text[1:]}." for text in unknown[:_MOST_UNKNOWN]]
    if len(unknown) > _MOST_UNKNOWN:
        said.append(f"{len(unknown) - _MOST_UNKNOWN} more sizes are unknown or assumed.")
    return tuple(said)
