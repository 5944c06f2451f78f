"""Counts the faults of many runs by machine, a host or a GPU, and finds the machines with more than their share. Pure.

The unit is a run on a machine, since the attempts of one run repeat the same work and would count one cause again and
again. Machines are compared by Fisher's exact test, one-sided: given how many runs had the fault anywhere, how likely
is it that at least as many of them were on this machine by chance? (R. A. Fisher, "The Design of Experiments", 1935.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from oomph.run.fleet.placed_run import PlacedAttempt, PlacedFault, PlacedRun, machine_faults

ANY = "any"
"""Stands for all faults that end an attempt, in place of the name of one."""
_SLOWS_DOWN = "recoverable"
"""The severity of faults that merely slow a training down. They are not counted among `ANY`."""
SIGNIFICANT = 0.01
"""The chance, corrected for the number of comparisons, below which a machine stands out: oomph's own."""


class MachineVisit(NamedTuple):
    """A run on one machine."""

    machine: str
    run: Path
    script: str
    attempts: int
    faults: Mapping[str, tuple[int, float]]
    """The number of attempts that had each fault, or `ANY`, and the last time."""


class FaultCount(NamedTuple):
    """The occurrences of a fault on one machine."""

    fault: str
    runs: int
    attempts: int
    last: float
    """The Unix time at which it was last seen."""
    last_run: Path


class MachineCount(NamedTuple):
    """The runs on one machine, and the faults there, the most frequent first."""

    machine: str
    runs: int
    attempts: int
    faults: tuple[FaultCount, ...]
    """The faults, with `ANY` among them if there were several kinds of it anywhere."""


class Excess(NamedTuple):
    """The fault of a machine that chance explains least, against all other machines."""

    machine: str
    worst: FaultCount
    runs: int
    elsewhere_faulty: int
    elsewhere_runs: int
    chance: float
    """The probability that chance alone leads to such a count, corrected for the number of comparisons."""
    own_scripts: bool
    """True if none of the scripts that had the fault there has run on any other machine."""


class MachineComparison(NamedTuple):
    """The machines of one sort, those with faults first, and those that stand out."""

    machines: tuple[MachineCount, ...]
    outliers: tuple[Excess, ...]
    comparisons: int
    """The number of comparisons that the chances are corrected for: machines times kinds of fault."""
    least_chance: float
    """The least chance of any machine, corrected in the same way."""


def host_visits(run: PlacedRun) -> Iterator[MachineVisit]:
    """Yield a run's visit to each host that it ran on."""
    by_host = defaultdict[str, list[tuple[PlacedFault, ...]]](list)
    for attempt in run.attempts:
        by_host[attempt.host].append(attempt.faults)
    return (_visit(host, run, attempts) for host, attempts in by_host.items())


def gpu_visits(run: PlacedRun) -> Iterator[MachineVisit]:
    """Yield a run's visit to each GPU that it could use, with the faults that are about this GPU."""
    by_gpu = defaultdict[str, list[tuple[PlacedFault, ...]]](list)
    for attempt in run.attempts:
        for gpu in attempt.gpus:
            by_gpu[gpu.uuid].append(_about(gpu.uuid, attempt))
    return (_visit(uuid, run, attempts) for uuid, attempts in by_gpu.items())


def _about(uuid: str, attempt: PlacedAttempt) -> tuple[PlacedFault, ...]:
    return tuple(fault for fault in attempt.faults if uuid in fault.gpus)


def _visit(machine: str, run: PlacedRun, attempts: Sequence[Sequence[PlacedFault]]) -> MachineVisit:
    faults: dict[str, tuple[int, float]] = {}
    for attempt in attempts:
        seen = {fault.name: fault.time for fault in attempt}
        ended = [time for name, time in seen.items() if machine_faults()[name].severity != _SLOWS_DOWN]
        for name, time in (seen | ({ANY: max(ended)} if ended else {})).items():
            count, last = faults.get(name, (0, -math.inf))
            faults[name] = count + 1, max(last, time)
    return MachineVisit(machine, run.path, run.script, len(attempts), faults)


def compare(visits: Iterable[MachineVisit]) -> MachineComparison:
    """Count the faults by machine, and test each machine against all others."""
    by_machine = defaultdict[str, list[MachineVisit]](list)
    for visit in visits:
        by_machine[visit.machine].append(visit)
    kinds = _kinds(by_machine)
    machines = [_machine(name, own, kinds) for name, own in by_machine.items()]
    comparisons = len(machines) * len(kinds)
    faulty = {kind: sum(each.runs for one in machines for each in one.faults if each.fault == kind) for kind in kinds}
    runs = sum(machine.runs for machine in machines)
    tested = [_least_likely(machine, faulty, runs, comparisons) for machine in machines if machine.faults]
    suspects = sorted((each for each in tested if each.chance < SIGNIFICANT), key=lambda each: each.chance)
    where = defaultdict[str, set[str]](set)
    for visit in (visit for own in by_machine.values() for visit in own):
        where[visit.script].add(visit.machine)
    outliers = [each._replace(own_scripts=_are_own(each, by_machine[each.machine], where)) for each in suspects]
    order = {each.machine: (each.chance, -each.worst.runs) for each in tested}
    return MachineComparison(
        tuple(sorted(machines, key=lambda each: (*order.get(each.machine, (math.inf, 0)), each.machine))),
        tuple(outliers),
        comparisons,
        min((each.chance for each in tested), default=1.0),
    )


def _kinds(by_machine: Mapping[str, Sequence[MachineVisit]]) -> frozenset[str]:
    """Return the faults to compare, with `ANY` only if it is more than one of them."""
    seen = {name for visits in by_machine.values() for visit in visits for name in visit.faults}
    ending = [name for name in seen - {ANY} if machine_faults()[name].severity != _SLOWS_DOWN]
    return frozenset(seen if len(ending) > 1 else seen - {ANY})


def _machine(name: str, visits: Sequence[MachineVisit], kinds: Iterable[str]) -> MachineCount:
    counts = [found for kind in kinds if (found := _count(kind, visits)) is not None]
    order = sorted(counts, key=lambda each: (-each.runs, each.fault))
    return MachineCount(name, len(visits), sum(visit.attempts for visit in visits), tuple(order))


def _count(kind: str, visits: Iterable[MachineVisit]) -> FaultCount | None:
    had = [(visit.faults[kind], visit.run) for visit in visits if kind in visit.faults]
    if not had:
        return None
    (_, last), run = max(had, key=lambda each: each[0][1])
    return FaultCount(kind, len(had), sum(attempts for (attempts, _), _ in had), last, run)


def _least_likely(machine: MachineCount, faulty: Mapping[str, int], runs: int, comparisons: int) -> Excess:
    """Return the fault on a machine that chance explains least."""
    chances = {each.fault: chance(each.runs, machine.runs, faulty[each.fault], runs) for each in machine.faults}
    count = min(machine.faults, key=lambda each: (chances[each.fault], each.fault == ANY))
    corrected = min(1.0, comparisons * chances[count.fault])
    elsewhere = faulty[count.fault] - count.runs, runs - machine.runs
    return Excess(machine.machine, count, machine.runs, *elsewhere, corrected, own_scripts=False)


def _are_own(outlier: Excess, visits: Iterable[MachineVisit], where: Mapping[str, set[str]]) -> bool:
    """True if no script that had the fault on this machine has run on another one, given where each script ran."""
    return all(len(where[visit.script]) == 1 for visit in visits if outlier.worst.fault in visit.faults)


def chance(faulty: int, runs: int, all_faulty: int, all_runs: int) -> float:
    """Return the probability that at least `faulty` of `runs` runs, drawn from all runs, are among the faulty ones.

    This is the upper tail of the hypergeometric distribution.
    """
    whole = _log_choose(all_runs, runs)
    least = max(faulty, runs - (all_runs - all_faulty))
    return min(
        1.0,
        math.fsum(
            math.exp(_log_choose(all_faulty, count) + _log_choose(all_runs - all_faulty, runs - count) - whole)
            for count in range(least, min(runs, all_faulty) + 1)
        ),
    )


def _log_choose(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
