"""The ladder of remedies for each fault: one change at a time for the next attempt. Pure; supervisor process.

A rung is the name of a change. It applies if there is something to change. "same" changes nothing and always applies,
except at a poison step, where it would only repeat what has already failed twice. Changes stay in effect for later
attempts. No change that oomph makes by itself alters the mathematics; the others need the flag that allows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from oomph.journal.events import Decided
from oomph.protocol.micro_batch_sizes import size_after_crash

SAME = "same"
MOST_SAME = 3
"""The number of unchanged restarts for a fault without a better remedy."""
OPT_IN = {"skip-batch": "--skip-poison", "precision": "--allow-bfloat16"}
"""Maps each change that alters the mathematics to the flag that allows it."""
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
"""Maps each fault to its rungs; any other fault gets MOST_SAME unchanged restarts."""


@dataclass(frozen=True)
class Change:
    """One change, in effect for the next attempt and those after it."""

    name: str
    """The name of its rung, such as "micro-batch"."""
    value: str = ""
    """The value of the change: a size, the UUID of a GPU, the name of a checkpoint, a place."""

    def __str__(self) -> str:
        return _WORDS.get(self.name, self.name + " {}").format(self.value)


def change_in(decided: Decided) -> Change | None:
    """Return the change of a decision; None for an invalid one, which a damaged journal may contain."""
    found = decided.change or {}
    return change_of(found.get("name"), found.get("value"))


def change_of(name: object, value: object) -> Change | None:
    """Return the change with this name and value; None if there is no such change."""
    if not (isinstance(name, str) and isinstance(value, str) and name in _WORDS):
        return None
    return Change(name, value) if re.fullmatch(_VALUES.get(name, ".*"), value, re.DOTALL) else None


_VALUES = {"micro-batch": "[1-9][0-9]{0,17}", "older-checkpoint": r"[\w.-]*\w[\w.-]*"}
"""Patterns for values that serve as more than text: a size, a folder name."""

_WORDS = {
    "micro-batch": "micro-batches of at most {}",
    "allocator": "CUDA's own allocator (TF_GPU_ALLOCATOR=cuda_malloc_async)",
    "growth": "GPU memory allocated as needed (TF_FORCE_GPU_ALLOW_GROWTH=true)",
    "no-xla": "without XLA",
    "no-onednn": "without oneDNN's kernels (TF_ENABLE_ONEDNN_OPTS=0)",
    "prefetch": "at most one batch prefetched",
    "exclude-gpu": "without GPU {}",
    "older-checkpoint": "from the checkpoint before {}",
    "precision": "in mixed_bfloat16",
    "skip-batch": "leaving out the batch at {}",
}


@dataclass(frozen=True)
class Conditions:
    """The facts after an attempt that decide what can be changed."""

    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the script may use."""
    broken_gpu: str = ""
    """UUID of the GPU that the kernel's log calls broken."""
    xla: bool = False
    """True if the last fit was compiled by XLA."""
    samples: int | None = None
    """The size of the batch or micro-batch of the last failed step."""
    refused: str = ""
    """The reason against splitting the batch of that step, as a probe found it; empty if it may be split, or if no
    probe has run."""
    resumed_from: str = ""
    """The checkpoint that the attempt resumed from; empty if it saved a newer one."""
    older_checkpoints: int = 0
    """The number of checkpoints on disk before that one."""
    segmentation_fault: bool = False
    in_effect: tuple[str, ...] = ()
    """Rungs whose change the script or its environment has already made."""


@dataclass(frozen=True)
class Rung:
    """A rung of a fault's ladder and its change, which is None for an unchanged restart."""

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
    """Return the next rung that applies, starting at `begin`; None if the ladder is used up.

    Args:
        fault: the name of the fault.
        begin: the first unused rung.
        conditions: what could be changed.
        made: the changes in effect.
        allowed: the changes of OPT_IN that the user allows.
        poison: the place of a step that has failed twice on the same data; empty if there is none.
    """
    rungs = ladder(fault)
    for index in range(begin, len(rungs)):
        name = rungs[index]
        if why_not(name, conditions, made, allowed, poison):
            continue
        return Rung(index, None if name == SAME else Change(name, _value(name, conditions, poison).strip()))
    return None


def ladder(fault: str) -> tuple[str, ...]:
    """Return every rung of a fault, including those that only apply at a poison step."""
    return (*LADDERS.get(fault, _PLAIN), *_SKIPS)


def why_not(
    name: str, conditions: Conditions, made: Collection[Change], allowed: Collection[str], poison: str = ""
) -> str:
    """Explain why a rung does not apply; empty if it does."""
    if name == SAME:
        return f"{poison} has failed twice on the same data" if poison else ""
    if name == "skip-batch" and not poison:
        return "no step has failed twice on the same data"
    if name in OPT_IN and name not in allowed:
        return f"alters the mathematics, and {OPT_IN[name]} was not given"
    value = _value(name, conditions, poison)
    if not value:
        return why_undivided(conditions) if name == "micro-batch" and conditions.refused else _MISSING[name]
    made_already = name != "skip-batch" and Change(name, value.strip()) in made
    return "already in effect" if made_already or name in conditions.in_effect else ""


def why_undivided(conditions: Conditions) -> str:
    """Say why the batch was not split; that reason also names the options that would train on it all the same."""
    return f"micro-batches are refused: {conditions.refused}"


def _value(name: str, conditions: Conditions, poison: str) -> str:
    return poison if name == "skip-batch" else _APPLIES[name](conditions)


_YES = " "
"""The value of a change that applies and needs no value."""


def _gpu(conditions: Conditions) -> str:
    return _YES if conditions.gpus else ""


def _half(conditions: Conditions) -> str:
    return "" if conditions.refused else str(size_after_crash(conditions.samples) or "")


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
"""Maps each rung to a function for the value of its change, which is empty if the rung does not apply."""
_MISSING = {
    "micro-batch": "the size of the failed step is not known, or is one sample",
    "allocator": "no GPU is known",
    "growth": "no GPU is known",
    "no-xla": "the fit was not compiled by XLA",
    "no-onednn": "it was not a segmentation fault",
    "exclude-gpu": "no GPU is known to be broken, or it is the only one",
    "older-checkpoint": "the attempt saved its own checkpoint, or there is no older one",
    "precision": "no GPU is known",
}
