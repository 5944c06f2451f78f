"""Puts the changes of a decision into effect for the next attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from oomph.gpu.memory_in_use import Gpu
from oomph.run.policy.ladder import Change
from oomph.run.supervisor.devices import visible

_VARIABLES = {
    "allocator": ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
    "growth": ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    "no-onednn": ("TF_ENABLE_ONEDNN_OPTS", "0"),
}
_IN_THE_SCRIPT = ("no-xla", "prefetch", "precision", "skip-batch")
"""Changes that only the script's process can make."""


def environ_after(changes: Iterable[Change], environ: Mapping[str, str], gpus: Sequence[Gpu]) -> dict[str, str]:
    """The environment with the changes that affect it; `gpus` are all GPUs of the machine."""
    changed = dict(environ)
    for change in changes:
        if change.name in _VARIABLES:
            name, value = _VARIABLES[change.name]
            changed[name] = value
        elif change.name == "exclude-gpu":
            there = [gpu.uuid for gpu in visible(gpus, changed)]
            if change.value in there:  # on another machine, or without NVML, there is nothing to exclude
                changed["CUDA_VISIBLE_DEVICES"] = ",".join(uuid for uuid in there if uuid != change.value)
    return changed


def in_effect(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The changes that this environment makes already."""
    there = {name: value.lower().replace("false", "0") for name, value in environ.items()}
    return tuple(change for change, (name, value) in _VARIABLES.items() if there.get(name) == value)


def most_samples(changes: Iterable[Change]) -> int | None:
    """The largest micro-batch still allowed, in samples; None when no change limits it."""
    return min((int(change.value) for change in changes if change.name == "micro-batch"), default=None)


def for_the_script(changes: Iterable[Change]) -> tuple[tuple[str, str], ...]:
    """The changes that the script's process has to make."""
    return tuple((change.name, change.value) for change in changes if change.name in _IN_THE_SCRIPT)


def set_aside(checkpoints: Path, name: str) -> None:
    """Rename a checkpoint so that the one before it becomes the newest."""
    if Path(name).name != name:
        return  # the name comes from a journal: it must not lead out of the folder
    try:
        (checkpoints / name).rename(checkpoints / f"refused-{name}")
    except OSError:
        pass  # already gone, or cannot be moved: then it fails again, and the next rung applies
