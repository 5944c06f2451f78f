"""Collects an attempt's conditions outside the script: kernel log, OOM kills, GPUs and checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from oomph.explain.reading import kernel_log
from oomph.gpu.memory_in_use import Gpu, PendingReading, memory_is_back, visible
from oomph.journal.events import CheckpointSaved, FitStarted, MicroBatchesProbed, Oom, Recovered, Resumed
from oomph.journal.journal import Event, facts, last
from oomph.process import available_memory
from oomph.run.policy.ladder import Conditions
from oomph.run.supervisor import effects
from oomph.run.supervisor.attempt import KernelReport
from oomph.terminal.console import Ticking

_REFUSED, _RESTART_ONLY = "refused", "restart only"
"""The kinds of promise that rule out micro-batches (`exact_step/micro_batch/exactness.py`)."""
_MEMORY_BACK_SECONDS = 50.0
_MEMORY_POLL_SECONDS = 1.0


class Machine:
    """The GPUs of this machine before the run."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._first = PendingReading()

    @property
    def all_gpus(self) -> tuple[Gpu, ...]:
        """All the machine's GPUs, as they were before the run."""
        return self._first.gpus()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the script may use."""
        return visible(self.all_gpus, self.environ)

    def wait_for_memory(self, called_off: Callable[[], object]) -> float | None:
        """Wait until the dead script's GPU memory is free again.

        Returns how long that took, in seconds, or None if it timed out or was called off.

        Args:
            called_off: a function that is polled, and ends the wait as soon as it returns True.
        """
        started = time.monotonic()
        if not self.gpus:
            return 0.0
        with Ticking() as ticking:
            while not memory_is_back(self.gpus, visible(PendingReading().gpus(), self.environ)):
                if called_off() or time.monotonic() - started > _MEMORY_BACK_SECONDS:
                    return None
                ticking.tick("waiting for the GPU's memory to be free again")
                time.sleep(_MEMORY_POLL_SECONDS)
        return time.monotonic() - started

    def listen(self) -> None:
        """Receive the result of the GPU memory query that started before the run. Costs nothing once it has arrived."""
        self._first.listen()

    def close(self) -> None:
        """Stop the GPU memory query that started before the run."""
        self._first.close()


class KernelWatch:
    """Collects what the kernel reports during one attempt, from just before its start."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._kernel = kernel_log.KernelLog()
        self._kills = available_memory.oom_kills()

    def look_back(self, pids: Collection[int]) -> KernelReport:
        """Return the report on the attempt, once it has ended."""
        now = available_memory.oom_kills()
        oom_kills = None if self._kills is None or now is None else now - self._kills
        lines = self._kernel.read()
        self._kernel.close()
        if not lines:
            return KernelReport(oom_kills, (), "")
        uuids = {gpu.bus: gpu.uuid for gpu in self._machine.gpus}
        concerning = kernel_log.that_concern(lines, pids, uuids)
        bus = kernel_log.broken_bus(concerning, uuids)
        return KernelReport(oom_kills, concerning, "" if bus is None else uuids.get(bus, bus))


def conditions(
    machine: Machine, broken_gpu: str, events: Sequence[Event], run_dir: Path | None, returncode: int
) -> Conditions:
    """Return the conditions after an attempt, given the events that the script wrote during it."""
    resumed_from, step = _resumed_from(events), _last_to_fail(events)
    return Conditions(
        gpus=tuple(gpu.uuid for gpu in machine.gpus),
        broken_gpu=broken_gpu,
        xla=any(fit.xla for fit in facts(events, FitStarted)),
        samples=None if step is None else step.micro_batch or step.batch,
        refused=_why_refused(step, events),
        resumed_from=resumed_from,
        older_checkpoints=_older_checkpoints(run_dir, resumed_from),
        segmentation_fault=returncode == -11,
        in_effect=(*effects.in_effect(machine.environ), *(["precision"] if _in_half_precision(events) else [])),
    )


def _in_half_precision(events: Sequence[Event]) -> bool:
    return any(fit.precision.endswith("float16") for fit in facts(events, FitStarted))


def _resumed_from(events: Sequence[Event]) -> str:
    """Return the checkpoint within a fit that the attempt resumed from, unless it has saved a newer one."""
    name = ""
    for event in events:
        match event.fact:
            case Resumed(kind="finished"):
                pass
            case Resumed(name=found):
                name = found
            case CheckpointSaved():
                name = ""
    return name


def _last_to_fail(events: Sequence[Event]) -> Oom | Recovered | None:
    """Return the last step of known size that ran out of memory, recovered or not, or None if there is none."""
    for event in reversed(events):
        match event.fact:
            case Oom() | Recovered() as step if step.micro_batch or step.batch is not None:
                return step
    return None


def _why_refused(step: Oom | Recovered | None, events: Sequence[Event]) -> str:
    """Return the reason against splitting this step's batch, or an empty string if there is none.

    It is that of a fit whose steps are not guarded, or else that of a probe. A fit has one verdict per batch layout.
    The last one counts, unless the batch was split anyway.
    """
    fit = last(events, FitStarted)
    if fit is not None and fit.guard == _RESTART_ONLY:
        return f"{fit.guard}, {fit.reason}"
    if not isinstance(step, Oom) or step.micro_batch not in (None, step.batch):
        return ""
    probes = facts(events, MicroBatchesProbed)
    verdicts = [probe for probe in probes if (probe.fit, probe.during) == (step.fit, step.during)]
    return verdicts[-1].reason if verdicts and verdicts[-1].kind == _REFUSED else ""


def _older_checkpoints(run_dir: Path | None, name: str) -> int:
    if run_dir is None or not name:
        return 0
    try:
        known = sorted(entry for entry in os.listdir(run_dir / "checkpoints") if entry.startswith("step-"))
    except OSError:
        return 0
    return known.index(name) if name in known else 0
