"""Keys: what the user has chosen in the live view, and how a key press changes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from oomph.watch.job import Job
from oomph.watch.view import GpuView

ORDERS: Mapping[str, Callable[[GpuView], float]] = MappingProxyType(
    {
        "index": lambda gpu: gpu.index,
        "memory": lambda gpu: -gpu.values.get("memory_used_bytes", 0.0),
        "use": lambda gpu: -gpu.values.get("utilization_ratio", 0.0),
        "temperature": lambda gpu: -gpu.values.get("temperature_celsius", 0.0),
    }
)
"""The sort keys for the GPUs, by the name of the order."""


@dataclass(frozen=True)
class ViewChoice:
    """The choices that the user made with keys."""

    paused: bool = False
    order: str = "index"
    quits: bool = False
    run: str = ""
    """The path of the run to show in full, or empty for the first one."""

    def sorted(self, gpus: Sequence[GpuView]) -> list[GpuView]:
        """Return the GPUs in the chosen order."""
        return sorted(gpus, key=ORDERS[self.order])

    def place(self, jobs: Sequence[Job]) -> int:
        """Return the index of the chosen run, or 0 if it is no longer shown."""
        return next((place for place, job in enumerate(jobs) if job.run == self.run), 0)


_KEY = re.compile(r"\x1b[\[O][0-9;]*[ -/]*[@-~]|.", re.DOTALL)
_UP, _DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j", "\t")


def keys_in(text: str) -> list[str]:
    """Split what the terminal has sent into keys. An arrow key arrives as several characters."""
    return _KEY.findall(text)


def pressed(choice: ViewChoice, key: str, jobs: Sequence[Job] = ()) -> ViewChoice:
    """Return the choice after a key press. Unassigned keys do not change it."""
    if key in ("q", "Q"):
        return replace(choice, quits=True)
    if key in ("p", "P"):
        return replace(choice, paused=not choice.paused)
    if key in ("s", "S"):
        orders = list(ORDERS)
        return replace(choice, order=orders[(orders.index(choice.order) + 1) % len(orders)])
    place = _selected(choice.place(jobs), key, len(jobs))
    return choice if place is None else replace(choice, run=jobs[place].run)


def _selected(place: int, key: str, count: int) -> int | None:
    """Return the index of the run that the key selects, or None if it selects none."""
    if key in _UP and count:
        return (place - 1) % count
    if key in _DOWN and count:
        return (place + 1) % count
    return int(key) - 1 if key in "123456789" and int(key) <= count else None
