"""Reads many runs, to compare the hosts and the GPUs on which they ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from oomph.run.fleet.comparison import MachineComparison, MachineVisit, compare, gpu_visits, host_visits
from oomph.run.fleet.placed_run import PlacedGpu, placed_run

_MOST_VISITS = 500_000
"""The most runs to keep, counted once for each GPU that they could use: journals may be planted."""


class Fleet(NamedTuple):
    """The machines of many runs."""

    runs: int
    """The number of runs whose place is known."""
    unread: int
    """The number of runs without a journal that this version of oomph can read."""
    hosts: MachineComparison
    gpus: MachineComparison
    """The GPUs, by UUID."""
    places: Mapping[str, tuple[str, PlacedGpu]]
    """The host and the description of each GPU, as last seen, by UUID."""


def read_fleet(runs: Iterable[Path]) -> Fleet:
    """Read the journals of these runs, given newest first. Never raises."""
    known, unread = 0, 0
    on_hosts, on_gpus = list[MachineVisit](), list[MachineVisit]()
    places: dict[str, tuple[str, PlacedGpu]] = {}
    for path in runs:
        run = placed_run(path) if len(on_gpus) < _MOST_VISITS else None
        if run is None or not run.attempts:
            unread += 1
            continue
        known += 1
        on_hosts += host_visits(run)
        on_gpus += gpu_visits(run)
        for attempt in reversed(run.attempts):
            for gpu in attempt.gpus:
                places.setdefault(gpu.uuid, (attempt.host, gpu))
    return Fleet(known, unread, compare(on_hosts), compare(on_gpus), places)
