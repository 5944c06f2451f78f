"""The changes that a decision asked for, put into effect for the next attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from oomph.gpu.memory_in_use import Gpu
from oomph.recovery.policy.ladder import Change
from oomph.recovery.supervisor.devices import visible

_VARIABLES = {
    "allocator": ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
    "growth": ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    "no-onednn": ("TF_ENABLE_ONEDNN_OPTS", "0"),
}
_IN_THE_SCRIPT = ("no-xla", "prefetch", "precision", "skip-batch")
"""What only the script's process can change."""


def environ_after(changes: Iterable[Change], environ: Mapping[str, str], gpus: Sequence[Gpu]) -> dict[str, str]:
    """The environment with the changes that are a matter of it; `gpus` are all of the machine."""
    changed = dict(environ)
    for change in changes:
        if change.name in _VARIABLES:
            name, value = _VARIABLES[change.name]
            changed[name] = value
        elif change.name == "exclude-gpu":
            there = [gpu.uuid for gpu in visible(gpus, changed)]
            if change.value in there:  # on another machine, or where NVML is silent, there is nothing to leave out
                changed["CUDA_VISIBLE_DEVICES"] = ",".join(uuid for uuid in there if uuid != change.value)
    return changed


def most_samples(changes: Iterable[Change]) -> int | None:
    """The largest micro-batch that is left; None when that was not changed."""
    return min((int(change.value) for change in changes if change.name == "micro-batch"), default=None)


def for_the_script(changes: Iterable[Change]) -> tuple[tuple[str, str], ...]:
    """The changes that the script's own process has to make."""
    return tuple((change.name, change.value) for change in changes if change.name in _IN_THE_SCRIPT)


def set_aside(checkpoints: Path, name: str) -> None:
    """Let the checkpoint before this one be the newest."""
    if Path(name).name != name:
        return  # it comes from a journal, and is no way out of the folder
    try:
        (checkpoints / name).rename(checkpoints / f"refused-{name}")
    except OSError:
        pass  # it is gone already, or cannot be moved: then it is met again, and the ladder goes on
