"""Formats which faults occurred on which hosts and GPUs, for `oomph explain FOLDER`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from oomph.cli.list_of_runs import moment
from oomph.run.fleet.comparison import ANY, SIGNIFICANT, Excess, FaultCount, MachineComparison, MachineCount
from oomph.run.fleet.fleet import Fleet
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import table, wrapped

_MOST_MACHINES, _MOST_OUTLIERS = 10, 5
_HEADS = ("fault", "runs", "share", "attempts", "last seen")
_ANY_IN_TABLE, _ANY_IN_SENTENCE = "any that ends it", "such a fault"
_LEAST_CHANCE = 1e-99
"""The least chance to print. Smaller ones mean the same."""


class _Sort(NamedTuple):
    """A sort of machine, and how to name one of them."""

    one: str
    many: str
    name: Callable[[str], str]
    note: str = ""
    """A remark on how runs are counted."""


def fleet_as_text(fleet: Fleet, width: int) -> str:
    """Format the faults by host and by GPU; empty if there are none, or nothing to compare.

    With one host, or one GPU, its faults are those of the runs in the list above, each of which explains its own.
    """
    parts = [
        "\n".join(_section(sort, comparison, fleet.runs, width))
        for sort, comparison in _sorts(fleet)
        if len(comparison.machines) > 1 and any(machine.faults for machine in comparison.machines)
    ]
    if parts and fleet.unread:
        parts.append(f"Not counted: {_runs(fleet.unread)} whose journal is unreadable or does not say where it ran")
    return "\n\n".join(parts)


def _sorts(fleet: Fleet) -> tuple[tuple[_Sort, MachineComparison], tuple[_Sort, MachineComparison]]:
    return (
        (_Sort("host", "hosts", shown_line), fleet.hosts),
        (_Sort("GPU", "GPUs", partial(_gpu, fleet), "; a run counts once on each of its GPUs"), fleet.gpus),
    )


def _gpu(fleet: Fleet, uuid: str) -> str:
    host, gpu = fleet.places[uuid]
    return shown_line(f"{host} GPU {gpu.number} {uuid[:12]}")


def _section(sort: _Sort, comparison: MachineComparison, runs: int, width: int) -> Iterator[str]:
    faulty = [machine for machine in comparison.machines if machine.faults]
    of = f"{_runs(runs)} on {counted(len(comparison.machines), sort.one, ',')}{sort.note}"
    yield wrapped(f"Faults that the {sort.one} may have caused, in {of}:", width)
    yield ""
    rows = [row for machine in faulty[:_MOST_MACHINES] for row in _rows(sort, machine)]
    yield from table([(sort.one, *_HEADS), *rows], width)
    if more := faulty[_MOST_MACHINES:]:
        yield f"... and {len(more):,} with a smaller excess (--json lists all)"
    if sound := [machine for machine in comparison.machines if not machine.faults]:
        yield f"none on {counted(len(sound), 'other', ',')}"
    yield ""
    for outlier in comparison.outliers[:_MOST_OUTLIERS]:
        yield wrapped(_stands_out(sort, outlier, comparison), width, "  ")
    if more_outliers := comparison.outliers[_MOST_OUTLIERS:]:
        yield f"... and {len(more_outliers):,} more (--json lists all)"
    if not comparison.outliers:
        yield wrapped(
            f"No {sort.one} stands out: chance alone leads to counts as unequal as these with a probability of "
            f"{_figure(comparison.least_chance)} ({_test(sort, comparison)}).",
            width,
            "  ",
        )


def _rows(sort: _Sort, machine: MachineCount) -> Iterator[tuple[str, ...]]:
    shown = machine.faults if len(machine.faults) > 2 else [each for each in machine.faults if each.fault != ANY]
    for place, count in enumerate(shown):
        yield (
            sort.name(machine.machine) if place == 0 else "",
            _ANY_IN_TABLE if count.fault == ANY else count.fault,
            f"{count.runs:,} of {machine.runs:,}",
            f"{count.runs / machine.runs:.1%}".replace("%", " %"),
            f"{count.attempts:,} of {machine.attempts:,}",
            moment(count.last),
        )


def _stands_out(sort: _Sort, outlier: Excess, comparison: MachineComparison) -> str:
    count = outlier.worst
    fault = _ANY_IN_SENTENCE if count.fault == ANY else count.fault
    text = (
        f"{sort.name(outlier.machine)} stands out: {count.runs:,} of {_runs(outlier.runs)} there had {fault}, against "
        f"{outlier.elsewhere_faulty:,} of {outlier.elsewhere_runs:,} elsewhere; chance alone leads to that with a "
        f"probability of {_figure(outlier.chance)} ({_test(sort, comparison)}). Last seen {moment(count.last)}, in "
        f"{shown_line(str(count.last_run))}."
    )
    only = f" These scripts have run on no other {sort.one}, so the fault may be theirs."
    return text + only * outlier.own_scripts


def _test(sort: _Sort, comparison: MachineComparison) -> str:
    return f"Fisher's exact test, corrected for {counted(comparison.comparisons, 'comparison', ',')} of {sort.many}"


def _runs(number: int) -> str:
    return counted(number, "run", ",")


def _figure(chance: float) -> str:
    return f"less than {_LEAST_CHANCE:g}" if chance < _LEAST_CHANCE else f"{chance:.1g}"


def fleet_as_document(fleet: Fleet) -> dict[str, Any]:
    """Return the same as JSON values, with every machine."""
    hosts = [{"host": each.machine, **_machine(each)} for each in fleet.hosts.machines]
    gpus = [{**_place(fleet, each.machine), **_machine(each)} for each in fleet.gpus.machines]
    outliers = [
        *({"host": each.machine, **_outlier(each)} for each in fleet.hosts.outliers),
        *({**_place(fleet, each.machine), **_outlier(each)} for each in fleet.gpus.outliers),
    ]
    return {
        "runs": fleet.runs,
        "unread": fleet.unread,
        "significant": SIGNIFICANT,
        "hosts": hosts,
        "gpus": gpus,
        "outliers": outliers,
    }


def _place(fleet: Fleet, uuid: str) -> dict[str, Any]:
    host, gpu = fleet.places[uuid]
    return {"gpu": uuid, "index": gpu.number, "name": gpu.name, "host": host}


def _machine(machine: MachineCount) -> dict[str, Any]:
    faults = [{"fault": each.fault, **_count(each)} for each in machine.faults]
    return {"runs": machine.runs, "attempts": machine.attempts, "faults": faults}


def _count(count: FaultCount) -> dict[str, Any]:
    last = {"last_seen": count.last, "last_run": str(count.last_run)}
    return {"runs": count.runs, "attempts": count.attempts, **last}


def _outlier(outlier: Excess) -> dict[str, Any]:
    return {
        "fault": outlier.worst.fault,
        "faulty_runs": outlier.worst.runs,
        "runs": outlier.runs,
        "elsewhere_faulty_runs": outlier.elsewhere_faulty,
        "elsewhere_runs": outlier.elsewhere_runs,
        "chance": outlier.chance,
        "own_scripts": outlier.own_scripts,
        "last_seen": outlier.worst.last,
        "last_run": str(outlier.worst.last_run),
    }
