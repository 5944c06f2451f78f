"""Defines a run's settings: those from the command line, and the machine's state and repairs at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oomph.errors import OomphError
from oomph.process.process_group import Patience
from oomph.protocol.handover import Guarding
from oomph.terminal.amounts import as_size
from oomph.terminal.console import say

if TYPE_CHECKING:
    from oomph.doctor.snapshot import Snapshot
    from oomph.process.command import Command
    from oomph.run.supervisor.engine import WorkerEngine
    from oomph.run.supervisor.notifying import Target


@dataclass(frozen=True)
class MachineAtStart:
    """The doctor's snapshot, and the changes that the doctor made to the script's environment."""

    snapshot: Mapping[str, Any] | None = None
    """An `oomph.doctor.snapshot.Snapshot` as a document, or None if no snapshot could be taken."""
    changes: Mapping[str, str | None] = field(default_factory=dict)
    """Maps each environment variable of the script to its new value, or to None to unset it."""
    gpus: tuple[Mapping[str, Any], ...] = ()
    """The GPUs that the script may use, in CUDA's order, as the event `attempt-started` has them."""
    remarks: tuple[str, ...] = ()
    """The remarks to print at the start."""


def look(command: Command, python: str) -> MachineAtStart:
    """Examine the machine as the script's Python will see it. On any error, the script runs unchanged."""
    found = command.own_python if command.form == "command" else python
    if not found:
        return MachineAtStart()
    try:
        from oomph.doctor.observe import observe
        from oomph.doctor.repairs import repairs

        snapshot = observe(found, say=say)
        mended = repairs(snapshot)
    except OomphError as error:
        return MachineAtStart(remarks=(f"the machine could not be examined: {error}",))
    except Exception as error:
        return MachineAtStart(remarks=(f"the machine could not be examined: {type(error).__name__}: {error}",))
    return MachineAtStart(
        snapshot=snapshot.as_document(),
        changes={repair.variable: repair.value for repair in mended},
        gpus=gpus_of(snapshot),
        remarks=tuple(_said(repair.variable, repair.value, repair.why) for repair in mended),
    )


def gpus_of(snapshot: Snapshot) -> tuple[Mapping[str, Any], ...]:
    """Return the GPUs in a snapshot that a script may use, in CUDA's order, without those that have no UUID."""
    return tuple(
        {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name or "", "bus": gpu.pci or ""}
        for gpu in (() if snapshot.gpus_hidden else snapshot.visible)
        if gpu.uuid
    )


def _said(variable: str, value: str | None, why: str) -> str:
    setting = f"{variable}={value}" if value is not None else f"{variable} unset"
    return f"repaired for this run: {why}; {setting}"


def other_gpus(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    """Describe how two snapshots' GPUs differ, or return an empty string if they don't or a snapshot is missing."""
    old, new = _gpus_of(before), _gpus_of(now)
    if old is None or new is None or old == new:
        return ""
    return f"the GPUs have changed: {_listed(old)} → {_listed(new)}"


def _gpus_of(snapshot: Mapping[str, Any] | None) -> list[tuple[str, int]] | None:
    """Return the name and the memory in bytes of each GPU, as reported by NVML."""
    if snapshot is None:
        return None
    try:
        devices = snapshot.get("nvml", {}).get("devices", ())
        return [(str(device.get("name")), int(device.get("total_bytes") or 0)) for device in devices]
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None  # a damaged journal


def _listed(gpus: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({as_size(size, 'GiB', 0)})" for name, size in gpus) or "none"


@dataclass(frozen=True)
class Settings:
    """The settings that apply to every attempt of the run."""

    guarding: Guarding = field(default_factory=Guarding)
    allowed: frozenset[str] = frozenset()
    """The changes that alter the mathematics (`ladder.OPT_IN`) and that the user has allowed."""
    typed: tuple[str, ...] = ()
    """The `oomph run` options, as typed."""
    patience: Patience = field(default_factory=Patience)
    machine_at_start: MachineAtStart = field(default_factory=MachineAtStart)
    workers: int = 1
    """The number of processes that run the script at the same time, as workers of one cluster."""
    fewest_workers: int = 1
    """The number of workers with which an attempt may start if the engine has no room for all."""
    python: str = ""
    """The Python after --python, or "" if the user leaves the choice to oomph."""
    engine: WorkerEngine | None = None
    """The engine that starts the workers on other machines, or None to start them on this one."""
    notify: Target | None = None
    """The target of notifications (`--notify`), or None to send none."""
