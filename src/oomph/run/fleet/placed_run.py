"""Reads from a run's journal where its attempts ran, and which faults occurred there that may be the machine's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import Fault
from oomph.explain.reading.kernel_log import BROKEN, known_bus, xids
from oomph.journal.event import Event
from oomph.journal.events import AttemptStarted, Diagnosed, FindingMade, GradientsDiffer, KernelLogRead
from oomph.journal.journal import facts, last, pairs
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.sample import title_of_gpu
from oomph.process.command import Command
from oomph.protocol.handover import has_fired
from oomph.run.policy.examination import HARDWARE_FAULT
from oomph.run.report.found import NOTICE

_KINDS = (AttemptStarted, Diagnosed, FindingMade, KernelLogRead)
_MOST_ATTEMPTS, _MOST_GPUS, _MOST_LINES, _LONGEST = 1000, 64, 100, 253
"""The most attempts of a run, GPUs and kernel messages of an attempt, and characters of a name to keep: journals may be
planted."""
_NONE = frozenset[str]()


class PlacedGpu(NamedTuple):
    """A GPU that an attempt could use."""

    uuid: str
    number: int
    """NVML's number of the GPU, as in `nvidia-smi` and in findings."""
    name: str
    bus: str


class PlacedFault(NamedTuple):
    """A fault in one attempt that the machine may have caused."""

    name: str
    time: float
    gpus: frozenset[str]
    """The UUIDs of the GPUs that it is about; empty if it is about none, or it is unknown which."""


class PlacedAttempt(NamedTuple):
    """An attempt, or one rank of it, on the host where it ran."""

    host: str
    gpus: tuple[PlacedGpu, ...]
    faults: tuple[PlacedFault, ...]


class PlacedRun(NamedTuple):
    """A run by the places of its attempts."""

    path: Path
    script: str
    attempts: tuple[PlacedAttempt, ...]
    """The attempts whose host is known; empty if the journal cannot be read."""


def placed_run(path: Path) -> PlacedRun:
    """Read where a run took place. Never raises: the journal may be damaged, planted, or of another version.

    The faults of a rehearsal are left out, since oomph injected them.
    """
    by_rank = defaultdict[tuple[int, int], list[Event]](list)
    for event in JournalReader(path, kinds=_KINDS, role="supervisor").read():
        by_rank[event.attempt, event.rank].append(event)
    attempts, words = list[PlacedAttempt](), list[str]()
    for (number, _), events in list(by_rank.items())[-_MOST_ATTEMPTS:]:
        started = last(events, AttemptStarted)
        if started is None or not started.host:
            continue
        gpus = tuple(_gpus(started.gpus))[:_MOST_GPUS]
        faults = tuple(_faults(path, number, events, gpus))
        attempts.append(PlacedAttempt(started.host[:_LONGEST], gpus, faults))
        words = [*started.command]
    if any(attempt.faults for attempt in attempts) and has_fired(path):
        attempts = [attempt._replace(faults=()) for attempt in attempts]
    return PlacedRun(path, _script(words), tuple(attempts))


@cache
def machine_faults() -> Mapping[str, Fault]:
    """Return the faults that the machine may have caused, by name."""
    return {fault.name: fault for fault in load() if fault.machine}


def _script(words: Sequence[str]) -> str:
    try:
        return Command(tuple(words)).name[:_LONGEST]
    except IndexError:
        return ""  # a damaged journal


def _gpus(recorded: Iterable[Mapping[str, Any]]) -> Iterator[PlacedGpu]:
    for gpu in recorded:
        index, texts = gpu.get("index"), [gpu.get(key) for key in ("uuid", "name", "bus")]
        if isinstance(index, int) and all(isinstance(text, str) for text in texts) and texts[0]:
            uuid, name, bus = (str(text)[:_LONGEST] for text in texts)
            yield PlacedGpu(uuid, index, name, bus)


def _faults(path: Path, attempt: int, events: Sequence[Event], gpus: Sequence[PlacedGpu]) -> Iterator[PlacedFault]:
    """Yield each fault of an attempt once, on the only GPU if it is a GPU's and nothing says which."""
    once: dict[str, PlacedFault] = {}
    for fault in (*_found(events, gpus), *_diagnosed(path, attempt, events, gpus)):
        before = once.get(fault.name, fault)
        once[fault.name] = fault._replace(gpus=before.gpus | fault.gpus)
    only = frozenset(gpu.uuid for gpu in gpus) if len(gpus) == 1 else _NONE
    for fault in once.values():
        yield fault._replace(gpus=only) if not fault.gpus and _is_of_a_gpu(fault.name) else fault


def _found(events: Iterable[Event], gpus: Iterable[PlacedGpu]) -> Iterator[PlacedFault]:
    """Yield what the monitor found of GPUs and their driver. It merely warns of other faults."""
    titles = {title_of_gpu(gpu.number, gpu.name): frozenset((gpu.uuid,)) for gpu in gpus}
    for event, found in pairs(events, FindingMade):
        if found.severity != NOTICE and found.fault in machine_faults():
            about = titles.get(found.subject, _NONE)
            if about or _is_of_a_gpu(found.fault):
                yield PlacedFault(found.fault, event.time, about)


def _diagnosed(path: Path, attempt: int, events: Sequence[Event], gpus: Sequence[PlacedGpu]) -> Iterator[PlacedFault]:
    """Yield the fault that ended the attempt, if it may be the machine's."""
    for event, diagnosed in pairs(events, Diagnosed)[-1:]:
        name, about = diagnosed.fault, _NONE
        if name in machine_faults():
            if _is_of_a_gpu(name):
                about = _reported(last(events, KernelLogRead), gpus)
            if name == HARDWARE_FAULT and not about and len(gpus) > 1:
                about = _wrong(path, attempt, gpus)
            yield PlacedFault(name, event.time, about)


def _is_of_a_gpu(fault: str) -> bool:
    return machine_faults()[fault].domain in ("gpu", "hardware")


def _reported(log: KernelLogRead | None, gpus: Iterable[PlacedGpu]) -> frozenset[str]:
    """Return the GPUs that the kernel log reports: those that are broken or, if none is, all with an Xid."""
    uuids = {gpu.bus: gpu.uuid for gpu in gpus if gpu.bus}
    lines = () if log is None else log.lines[:_MOST_LINES]
    found = [(known_bus(bus, uuids), code) for bus, code, _ in xids(lines)]
    broken = {bus for bus, code in found if code in BROKEN}
    return frozenset(uuids[bus] for bus in broken or {bus for bus, _ in found} if bus is not None)


def _wrong(path: Path, attempt: int, gpus: Sequence[PlacedGpu]) -> frozenset[str]:
    """Return the GPUs that computed wrong gradients, according to the events of the script."""
    found = facts(JournalReader(path, attempt, kinds=(GradientsDiffer,)).read(), GradientsDiffer)
    devices = {f"GPU:{place}": gpu.uuid for place, gpu in enumerate(gpus)}
    return frozenset(devices[name] for each in found if (name := each.device.partition(" ")[0]) in devices)
