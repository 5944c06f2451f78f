"""Reads from a run's journal where its attempts ran, and which faults occurred there that may be the machine's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import Fault
from oomph.explain.reading.kernel_log import BROKEN, known_bus, xids
from oomph.journal.event import Event
from oomph.journal.events import AttemptStarted, Diagnosed, FindingMade, GradientsDiffer, KernelLogRead
from oomph.journal.journal import facts, last
from oomph.journal.journal_reader import JournalReader
from oomph.monitor.sample import title_of_gpu
from oomph.process.command import Command
from oomph.protocol.handover import has_fired
from oomph.run.policy.examination import HARDWARE_FAULT
from oomph.run.report.found import NOTICE

_KINDS = (AttemptStarted, Diagnosed, FindingMade, KernelLogRead)
_OF_A_GPU = ("gpu", "hardware")
"""The domains of the faults that a GPU may have caused."""
_MOST_ATTEMPTS, _MOST_GPUS, _LONGEST = 1000, 64, 253
"""The most attempts of a run and GPUs of an attempt to keep, and of characters in a name: journals may be planted."""


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
    """Yield each fault of an attempt once: the diagnosed one, and those that the monitor found of the hardware."""
    times, blamed = dict[str, float](), defaultdict[str, set[str]](set)
    for event in events:
        match event.fact:
            case Diagnosed(fault=name) if name in machine_faults():
                times[name] = event.time
                if machine_faults()[name].domain in _OF_A_GPU:
                    blamed[name] |= _reported(facts(events, KernelLogRead), gpus)
                if name == HARDWARE_FAULT and not blamed[name] and len(gpus) > 1:
                    blamed[name] |= _wrong(path, attempt, gpus)
            case FindingMade(fault=name, severity=severity) as found if severity != NOTICE and name in machine_faults():
                about = {gpu.uuid for gpu in gpus if title_of_gpu(gpu.number, gpu.name) == found.subject}
                if about or machine_faults()[name].domain in _OF_A_GPU:
                    times[name] = event.time
                    blamed[name] |= about
    for name, time in times.items():
        only = {gpus[0].uuid} if len(gpus) == 1 and machine_faults()[name].domain in _OF_A_GPU else set()
        yield PlacedFault(name, time, frozenset(blamed[name] or only))


def _reported(logs: Iterable[KernelLogRead], gpus: Sequence[PlacedGpu]) -> set[str]:
    """Return the GPUs that the kernel log reports: those that are broken or, if none is, all with an Xid."""
    uuids = {gpu.bus: gpu.uuid for gpu in gpus if gpu.bus}
    found = [(known_bus(bus, uuids), code) for log in logs for bus, code, _ in xids(log.lines)]
    broken = {bus for bus, code in found if code in BROKEN}
    return _named(broken or {bus for bus, _ in found}, uuids)


def _named(buses: Collection[str | None], uuids: Mapping[str, str]) -> set[str]:
    return {uuids[bus] for bus in buses if bus is not None}


def _wrong(path: Path, attempt: int, gpus: Sequence[PlacedGpu]) -> set[str]:
    """Return the GPUs that computed wrong gradients, according to the events of the script."""
    found = facts(JournalReader(path, attempt, kinds=(GradientsDiffer,)).read(), GradientsDiffer)
    devices = {f"GPU:{place}": gpu.uuid for place, gpu in enumerate(gpus)}
    return {devices[name] for each in found if (name := each.device.partition(" ")[0]) in devices}
