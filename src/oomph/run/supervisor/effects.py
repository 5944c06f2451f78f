"""Puts decisions and settings into effect, via the script's environment, its handover and its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import oomph
from oomph.protocol.entropy import hash_seed
from oomph.protocol.handover import Guarding, Handover
from oomph.protocol.ownership import VARIABLE as OWNER_VARIABLE
from oomph.run.hang.watch import STACKS_SIGNAL, Watch

if TYPE_CHECKING:
    from oomph.gpu.memory_in_use import Gpu
    from oomph.run.directory.run_directory import RunDirectory
    from oomph.run.policy.ladder import Change
    from oomph.run.supervisor.settings import Settings

_VARIABLES = {
    "allocator": ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
    "growth": ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    "no-onednn": ("TF_ENABLE_ONEDNN_OPTS", "0"),
}
_IN_THE_SCRIPT = ("no-xla", "prefetch", "precision", "skip-batch")
"""Changes that only the script's process can make."""


def environ_after(changes: Iterable[Change], environ: Mapping[str, str], gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the environment after applying the changes that affect it. `gpus` are all GPUs in the machine."""
    changed = dict(environ)
    for change in changes:
        if change.name in _VARIABLES:
            name, value = _VARIABLES[change.name]
            changed[name] = value
        elif change.name == "exclude-gpu":
            from oomph.gpu.memory_in_use import visible

            there = [gpu.uuid for gpu in visible(gpus, changed)]
            if change.value in there:  # on another machine, or without NVML, there is nothing to exclude
                changed["CUDA_VISIBLE_DEVICES"] = ",".join(uuid for uuid in there if uuid != change.value)
    return changed


def in_effect(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the changes that this environment already makes."""
    there = {name: value.lower().replace("false", "0") for name, value in environ.items()}
    return tuple(change for change, (name, value) in _VARIABLES.items() if there.get(name) == value)


def most_samples(changes: Iterable[Change]) -> int | None:
    """Return the largest micro-batch still allowed, in samples, or None if no change limits it."""
    return min((int(change.value) for change in changes if change.name == "micro-batch"), default=None)


def for_the_script(changes: Iterable[Change]) -> tuple[tuple[str, str], ...]:
    """Return the changes that the script's process itself has to make."""
    return tuple((change.name, change.value) for change in changes if change.name in _IN_THE_SCRIPT)


def set_aside(checkpoints: Path, name: str) -> None:
    """Rename a checkpoint so that the one before it becomes the newest."""
    if Path(name).name != name:
        return  # the name comes from a journal: it must not lead out of the folder
    try:
        (checkpoints / name).rename(checkpoints / f"refused-{name}")
    except OSError:
        pass  # it is already gone, or cannot be renamed: it will then fail again, and the next rung applies


_PACKAGE = Path(oomph.__file__).resolve().parent
_SITE = _PACKAGE / "inject" / "site"


def surrounding(settings: Settings, changes: Sequence[Change], gpus: Sequence[Gpu], entropy: str) -> dict[str, str]:
    """Return oomph's own environment with the doctor's repairs and the changes decided so far.

    Args:
        settings: the settings of the run.
        changes: the changes in effect.
        gpus: all GPUs in the machine.
        entropy: the run's entropy, or an empty string for none.
    """
    environ = dict(os.environ)
    environ.pop(OWNER_VARIABLE, None)  # a run inside another run has its own owner
    _repair(environ, settings.machine_at_start.changes)
    if changes:
        environ = environ_after(changes, environ, gpus)
    environ |= hash_seed(entropy, environ)
    put_site_first(environ)
    return environ


def put_site_first(environ: dict[str, str]) -> None:
    """Put oomph's sitecustomize first, so that every Python in this environment loads it before running its script."""
    path = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = f"{_SITE}{os.pathsep}{path}" if path else str(_SITE)


def handover(
    guarding: Guarding,
    changes: Sequence[Change],
    run: RunDirectory | None,
    attempt: int,
    watch: Watch,
    rank: int = 0,
    workers: int = 1,
    start: str = "",
) -> Handover:
    """Build the handover that the supervisor passes to a process of the script, whose run directory is `run`."""
    beat_inode, stacks_inode = watch.inodes
    return Handover(
        package=str(_PACKAGE),
        run_dir=None if run is None else str(run.path),
        run_dir_is=None if run is None else run.identity,
        attempt=attempt,
        rank=rank,
        workers=workers,
        start=start,
        guarding=guarding,
        lock_fd=None if run is None else run.lock_fd,
        beat_fd=watch.beat_fd,
        beat_inode=beat_inode,
        stacks_fd=watch.stacks_fd,
        stacks_inode=stacks_inode,
        stacks_signal=STACKS_SIGNAL,
        most_samples=most_samples(changes),
        entropy="" if run is None else run.record.entropy,
        changes=for_the_script(changes),
    )


def _repair(environ: dict[str, str], repairs: Mapping[str, str | None]) -> None:
    for name, value in repairs.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
