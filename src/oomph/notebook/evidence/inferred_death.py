"""Infers how a kernel died from what it left behind, and says so in at most three lines. Pure.

Nobody waited for the kernel, so its exit status is unknown. Only a stack that it wrote while crashing and a line of
Linux's kernel log that names it are proof; the OOM kill counter may have counted another process.
"""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass
from typing import NamedTuple

from oomph.notebook.evidence.kernel_board import NO_CELL, KernelSample, KernelState
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol.progress import Progress
from oomph.protocol.python_stacks import crashed_at
from oomph.terminal.amounts import as_duration, as_size

_NEAR_LIMIT = 0.9
"""The share of memory in use that counts as nearly full. Samples are up to a second old, and memory may fill faster."""
_APART_NS = 120 * 10**9
"""The longest time between the last sample and the kernel log's line about the same death. A machine that runs out of
memory may stall for a minute or two. After that, the PID may be another process's."""
_FATAL = "Fatal Python error: "
# The words of CPython's faulthandler, Modules/faulthandler.c.
_SIGNALS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Floating-point exception": signal.SIGFPE,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}


@dataclass(frozen=True)
class Traces:
    """Everything that can be read about a dead kernel, and the state of the machine now."""

    state: KernelState
    here: ProcessIdentity
    """The process that reads the traces."""
    oom_kills: int | None = None
    """The number of OOM kills in the reader's control group so far."""
    group: int = 0
    """The `own_group` of the reader."""
    stack: str = ""
    """The stack that the kernel wrote when it crashed, if it did."""
    killed_at_ns: tuple[int, ...] = ()
    """The monotonic times, from the kernel log, at which the OOM killer killed a process with the dead kernel's PID."""
    progress: Progress | None = None
    """The progress of the kernel's training, or None if it did not train."""
    has_cells: bool = True
    """False if it was not a kernel but a program that had enabled oomph itself."""
    in_training: bool = False
    """True if a fit or loop had started but not finished."""


class Cause(enum.Enum):
    """The way in which a kernel died, as far as the evidence shows."""

    OOM_KILLED = "the kernel log names it as killed by the OOM killer"
    CRASHED = "it wrote its stack at a fatal signal"
    PROBABLY_OOM_KILLED = "OOM kills were counted after its last sample, and memory was nearly full"
    PERHAPS_OOM_KILLED = "OOM kills were counted after its last sample"
    MEMORY_WAS_SHORT = "memory was nearly full"
    RESTARTED_MACHINE = "the machine has been restarted since"
    OTHER_MACHINE = "it ran elsewhere"
    UNKNOWN = "nothing is known"


class InferredDeath(NamedTuple):
    """The way in which a kernel died, with its signal if known."""

    cause: Cause
    signal: int = 0
    """The signal that ended the kernel, or 0 if that is not certain."""


def death_of(traces: Traces) -> InferredDeath:
    """Return how the kernel died. A cause is certain only if the evidence proves it."""
    state, here = traces.state, traces.here
    signum = fatal_signal(traces.stack)
    if signum:
        return InferredDeath(Cause.CRASHED, signum)
    if state.kernel.host != here.host:
        return InferredDeath(Cause.OTHER_MACHINE)
    if state.kernel.boot != here.boot:
        return InferredDeath(Cause.RESTARTED_MACHINE)
    if any(abs(at_ns - state.sample.at_ns) <= _APART_NS for at_ns in traces.killed_at_ns):
        return InferredDeath(Cause.OOM_KILLED, signal.SIGKILL)
    is_short = _is_short(state.sample)
    if _new_kills(traces):
        return InferredDeath(Cause.PROBABLY_OOM_KILLED if is_short else Cause.PERHAPS_OOM_KILLED)
    return InferredDeath(Cause.MEMORY_WAS_SHORT if is_short else Cause.UNKNOWN)


def fatal_signal(stack: str) -> int:
    """Return the signal at which faulthandler wrote this stack, or 0 if the stack is empty or has another origin."""
    first = stack.lstrip().partition("\n")[0]
    return _SIGNALS.get(first.removeprefix(_FATAL), 0) if first.startswith(_FATAL) else 0


def _new_kills(traces: Traces) -> bool:
    """True if the control group has counted OOM kills since the last sample, when the kernel was still alive."""
    before, now = traces.state.sample.oom_kills, traces.oom_kills
    return traces.group == traces.state.sample.group and before is not None and now is not None and now > before


def _is_short(sample: KernelSample) -> bool:
    return sample.used is not None and bool(sample.total) and sample.used >= _NEAR_LIMIT * (sample.total or 0)


def is_worth_telling(traces: Traces, death: InferredDeath) -> bool:
    """True if something was interrupted or points to a fault. Otherwise, Jupyter was most likely just shut down."""
    is_busy = traces.in_training or traces.state.cell != NO_CELL
    return is_busy or death.cause not in (Cause.UNKNOWN, Cause.OTHER_MACHINE, Cause.RESTARTED_MACHINE)


# -- words ------------------------------------------------------------------------------------------------------------


def in_lines(traces: Traces, death: InferredDeath, fault: str, seconds_ago: float) -> list[str]:
    """Describe a death in at most three lines: the cause, the position of the training, and what to do.

    Args:
        traces: what is known about the kernel.
        death: what follows from that.
        fault: the name of the fault that the death shows, and the command that explains it, or an empty string.
        seconds_ago: the time since the last sample.
    """
    lines = [_cause(traces, death, fault, seconds_ago)]
    if traces.in_training:
        lines.append(_position(traces.progress))
    lines.append(_advice(traces))
    return lines


def _cause(traces: Traces, death: InferredDeath, fault: str, seconds_ago: float) -> str:
    state = traces.state
    cell = "" if state.cell == NO_CELL else f", in cell [{state.cell}]"
    where = "" if state.kernel.host == traces.here.host else f" on {state.kernel.host}"
    seen = f"last seen {as_duration(max(seconds_ago, 0.0))} ago"
    kernel = f"the {'last kernel' if traces.has_cells else 'program'} (process {state.kernel.pid}{where}, {seen}{cell})"
    memory, named = _memory(state.sample), f": {fault}" if fault else ""
    match death.cause:
        case Cause.OOM_KILLED:
            return f"{kernel} was killed because memory ran out, as the kernel log says{memory}{named}"
        case Cause.CRASHED:
            return f"{kernel} crashed with {signal.Signals(death.signal).name}{crashed_at(traces.stack)}{named}"
        case Cause.PROBABLY_OOM_KILLED:
            return f"{kernel} was probably killed because memory ran out: the OOM kill counter went up{memory}{named}"
        case Cause.PERHAPS_OOM_KILLED:
            return (
                f"{kernel} may have been killed because memory ran out: the OOM kill counter went up, for it or another"
                f" process{memory}{named}"
            )
        case Cause.MEMORY_WAS_SHORT:
            return f"nothing shows what killed {kernel}, but memory was nearly full{memory}"
        case Cause.RESTARTED_MACHINE:
            return f"{kernel} did not exit cleanly, and the machine has been restarted since"
        case Cause.OTHER_MACHINE:
            return f"{kernel} did not exit cleanly; only that machine can show what ended it"
    return f"nothing shows what killed {kernel}: no crash, and no shortage of memory{memory}"


def _memory(sample: KernelSample) -> str:
    """Describe the memory in use at the last sample, or return an empty string if it is unknown."""
    if sample.used is None or sample.total is None:
        return ""
    of_it = "" if sample.resident is None else f", {as_size(sample.resident)} by the kernel"
    return f" ({as_size(sample.used)} of {as_size(sample.total)} in use{of_it})"


def _position(progress: Progress | None) -> str:
    if progress is None or not progress.steps:
        return "its training had not finished a step"
    return f"its training was {progress.in_words}"


def _advice(traces: Traces) -> str:
    again = "run the cells again" if traces.has_cells else "start the program again"
    which = "; to list the cells, use %oomph again" if traces.has_cells else ""
    if not traces.in_training:
        return f"no training was interrupted; to get the variables back, {again}{which}"
    if traces.progress is None or not traces.progress.saved:
        return f"{again}: the training starts from the beginning, since no checkpoint was saved{which}"
    return f"{again}: the training resumes from its last checkpoint{which}"
