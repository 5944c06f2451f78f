"""The ladder of remedies of each fault: what the next attempt does differently, one thing at a time. Pure.

A rung is a name. It is climbed when it applies: when what it would change is there to be changed. "same" changes
nothing and always applies, except at a poison step, where it would only repeat what has just been seen twice.
Changes stay in effect for the attempts that follow. None of those that oomph makes by itself alters the mathematics;
the others wait for the flag that allows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

SAME = "same"
MOST_SAME = 3
"""Times that a fault is met with the same start, where nothing better is known."""
OPT_IN = {"skip-batch": "--skip-poison", "precision": "--allow-bfloat16"}
"""Changes that alter the mathematics → the flag that allows them."""
_SKIPS = ("skip-batch",) * 3
_PLAIN = (SAME,) * MOST_SAME
_STICKY = (SAME, "no-xla", "older-checkpoint", SAME, SAME)

LADDERS: Mapping[str, tuple[str, ...]] = {
    "device-oom": (SAME, "micro-batch", "micro-batch", "allocator", "growth", "no-xla", "precision"),
    "device-oom-fragmentation": (SAME, "allocator", "growth", "micro-batch", "no-xla", "precision"),
    "device-oom-other-process": (SAME, "growth", "micro-batch", SAME),
    "host-oom": (SAME, "prefetch", "no-onednn", "micro-batch"),
    "illegal-memory-access": _STICKY,
    "kernel-launch-failure": _STICKY,
    "segmentation-fault": _STICKY,
    "abort": _STICKY,
    "fatal-signal": _STICKY,
    "xla-compile-failure": ("no-xla",),
    "hang": (SAME, SAME, "older-checkpoint", SAME),
    "checkpoint-failure": ("older-checkpoint", SAME),
    "hardware-fault": ("exclude-gpu", SAME),
}
"""Fault → rungs; a fault that is not here is met with the same start, MOST_SAME times."""


@dataclass(frozen=True)
class Change:
    """One thing that is different from the next attempt on."""

    name: str
    """The rung it came from, such as "micro-batch"."""
    value: str = ""
    """To what: a size, the UUID of a GPU, the name of a checkpoint, a place."""

    def __str__(self) -> str:
        return _WORDS.get(self.name, self.name + " {}").format(self.value)


def change_in(data: Mapping[str, Any]) -> Change | None:
    """The change of a `decided` event; None for one that cannot be made, as a damaged journal may hold."""
    found = data.get("change")
    return change_of(found.get("name"), found.get("value")) if isinstance(found, dict) else None


def change_of(name: object, value: object) -> Change | None:
    """The change of that name and to that value; None when there is no such change."""
    if not (isinstance(name, str) and isinstance(value, str) and name in _WORDS):
        return None
    return Change(name, value) if re.fullmatch(_VALUES.get(name, ".*"), value, re.DOTALL) else None


_VALUES = {"micro-batch": "[1-9][0-9]{0,17}", "older-checkpoint": r"[\w.-]*\w[\w.-]*"}
"""What the value of a change looks like, where something is done with it: that of the last is the name of a folder."""

_WORDS = {
    "micro-batch": "micro-batches of at most {}",
    "allocator": "CUDA's own allocator (TF_GPU_ALLOCATOR=cuda_malloc_async)",
    "growth": "GPU memory taken as it is needed (TF_FORCE_GPU_ALLOW_GROWTH=true)",
    "no-xla": "without XLA",
    "no-onednn": "without oneDNN's kernels (TF_ENABLE_ONEDNN_OPTS=0)",
    "prefetch": "one batch prefetched at most",
    "exclude-gpu": "without GPU {}",
    "older-checkpoint": "from the checkpoint before {}",
    "precision": "in mixed_bfloat16",
    "skip-batch": "leaving out the batch at {}",
}


@dataclass(frozen=True)
class Conditions:
    """What is there to be changed, as known when an attempt has ended."""

    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the script may use."""
    broken_gpu: str = ""
    """UUID of the one that the kernel's log calls broken."""
    xla: bool = False
    """Whether the last fit was compiled by XLA."""
    samples: int | None = None
    """The samples that the last failed step took at once: its batch, or its micro-batch."""
    resumed_from: str = ""
    """The checkpoint that the attempt began with and did not get beyond; empty when it saved a newer one."""
    older_checkpoints: int = 0
    """Checkpoints on the disk before that one."""
    segmentation_fault: bool = False


@dataclass(frozen=True)
class Rung:
    """Where on its ladder a fault is met, and with what change; None for the same start again."""

    index: int
    change: Change | None


def climb(
    fault: str,
    begin: int,
    conditions: Conditions,
    made: Collection[Change],
    allowed: Collection[str],
    poison: str = "",
) -> Rung | None:
    """The next rung from `begin` on that applies; None when the ladder has ended.

    Args:
        fault: the name of what happened.
        begin: the first rung that has not been used.
        conditions: what is there to be changed.
        made: the changes in effect.
        allowed: the changes of OPT_IN that the user allows.
        poison: the place of the step that has failed twice on the same data; empty when there is none.
    """
    rungs = ladder(fault)
    for index in range(begin, len(rungs)):
        name = rungs[index]
        if why_not(name, conditions, made, allowed, poison):
            continue
        return Rung(index, None if name == SAME else Change(name, _value(name, conditions, poison).strip()))
    return None


def ladder(fault: str) -> tuple[str, ...]:
    """Every rung of a fault, those included that only apply at a poison step."""
    return (*LADDERS.get(fault, _PLAIN), *_SKIPS)


def why_not(
    name: str, conditions: Conditions, made: Collection[Change], allowed: Collection[str], poison: str = ""
) -> str:
    """Why a rung does not apply, in words; empty when it does."""
    if name == SAME:
        return f"{poison} has failed twice on the same data" if poison else ""
    if name == "skip-batch" and not poison:
        return "no step has failed twice on the same data"
    if name in OPT_IN and name not in allowed:
        return f"alters the mathematics, and {OPT_IN[name]} was not given"
    value = _value(name, conditions, poison)
    if not value:
        return _MISSING[name]
    made_already = name != "skip-batch" and Change(name, value.strip()) in made
    return "already in effect" if made_already else ""


def _value(name: str, conditions: Conditions, poison: str) -> str:
    return poison if name == "skip-batch" else _APPLIES[name](conditions)


_YES = " "
"""A change without a value applies."""


def _gpu(conditions: Conditions) -> str:
    return _YES if conditions.gpus else ""


def _half(conditions: Conditions) -> str:
    return str(conditions.samples // 2) if conditions.samples is not None and conditions.samples > 1 else ""


def _without_broken(conditions: Conditions) -> str:
    others = [uuid for uuid in conditions.gpus if uuid != conditions.broken_gpu]
    return conditions.broken_gpu if others and conditions.broken_gpu in conditions.gpus else ""


def _checkpoint_before(conditions: Conditions) -> str:
    return conditions.resumed_from if conditions.older_checkpoints else ""


_APPLIES: Mapping[str, Callable[[Conditions], str]] = {
    "micro-batch": _half,
    "allocator": _gpu,
    "growth": _gpu,
    "no-xla": lambda conditions: _YES if conditions.xla else "",
    "no-onednn": lambda conditions: _YES if conditions.segmentation_fault else "",
    "prefetch": lambda conditions: _YES,
    "exclude-gpu": _without_broken,
    "older-checkpoint": _checkpoint_before,
    "precision": _gpu,
}
"""Rung → the value of its change; empty when it does not apply."""
_MISSING = {
    "micro-batch": "the size of the failed step is not known, or is one sample",
    "allocator": "no GPU is known",
    "growth": "no GPU is known",
    "no-xla": "the fit was not compiled by XLA",
    "no-onednn": "it was no segmentation fault",
    "exclude-gpu": "no GPU is known to be broken, or it is the only one",
    "older-checkpoint": "the attempt had a checkpoint of its own, or there is no older one",
    "precision": "no GPU is known",
}
