"""Defines each fault's ladder of remedies, one change at a time for the next attempt.

Pure; runs in the supervisor process. A rung is the name of a change, and applies if there is something to change.
"same" changes nothing and always applies, except at a poison step, where it would only repeat what has already failed
twice. Changes stay in effect for later attempts. The changes that oomph makes on its own never alter the mathematics.
Those that do need a flag that allows them.
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
"""Maps each fault to its rungs. Any other fault gets MOST_SAME unchanged restarts."""


@dataclass(frozen=True)
class Change:
    """One change, in effect for the next attempt and all later ones."""

    name: str
    """The name of the change's rung, such as "micro-batch"."""
    value: str = ""
    """The value of the change: a size, a GPU's UUID, the name of a checkpoint, or the position of a step."""

    def __str__(self) -> str:
        return _WORDS.get(self.name, self.name + " {}").format(self.value)


def change_in(decided: Decided) -> Change | None:
    """Return the change in a decision, or None if it is invalid, as may happen if the journal is damaged."""
    found = decided.change or {}
    return change_of(found.get("name"), found.get("value"))


def change_of(name: object, value: object) -> Change | None:
    """Return the change with this name and value, or None if there is no such change."""
    if not (isinstance(name, str) and isinstance(value, str) and name in _WORDS):
        return None
    return Change(name, value) if re.fullmatch(_VALUES.get(name, ".*"), value, re.DOTALL) else None


_VALUES = {"micro-batch": "[1-9][0-9]{0,17}", "older-checkpoint": r"[\w.-]*\w[\w.-]*"}
"""Patterns for values that are used as more than text: a size, a folder name."""

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
    """The facts, known after an attempt, that decide what can be changed."""

    gpus: tuple[str, ...] = ()
    """The UUIDs of the GPUs that the script may use."""
    broken_gpu: str = ""
    """The UUID of the GPU that the kernel log reports as broken."""
    xla: bool = False
    """True if a fit was compiled by XLA."""
    samples: int | None = None
    """The number of samples in the batch or micro-batch of the last failed step."""
    refused: str = ""
    """The reason that a probe found against splitting that step's batch, or an empty string if the batch may be split
    or no probe has run."""
    resumed_from: str = ""
    """The checkpoint that the attempt resumed from, or an empty string if the attempt saved a newer one."""
    older_checkpoints: int = 0
    """The number of checkpoints on disk that are older than that one."""
    segmentation_fault: bool = False
    in_effect: tuple[str, ...] = ()
    """The rungs whose changes the script or its environment has already made."""


@dataclass(frozen=True)
class Rung:
    """One rung of a fault's ladder, with its change, which is None for an unchanged restart."""

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
    """Return the next rung that applies, starting at `begin`, or None if the ladder is used up.

    Args:
        fault: the name of the fault.
        begin: the index of the first unused rung.
        conditions: the conditions that determine what can be changed.
        made: the changes in effect.
        allowed: the changes in OPT_IN that the user has allowed.
        poison: the position of a step that failed twice on the same data, or an empty string if there is none.
    """
    rungs = ladder(fault)
    for index in range(begin, len(rungs)):
        name = rungs[index]
        if why_not(name, conditions, made, allowed, poison):
            continue
        return Rung(index, None if name == SAME else Change(name, _value(name, conditions, poison).strip()))
    return None


def ladder(fault: str) -> tuple[str, ...]:
    """Return every rung of a fault's ladder, including those that apply only at a poison step."""
    return (*LADDERS.get(fault, _PLAIN), *_SKIPS)


def why_not(
    name: str, conditions: Conditions, made: Collection[Change], allowed: Collection[str], poison: str = ""
) -> str:
    """Explain why a rung does not apply, or return an empty string if it does."""
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
    """Explain why the batch was not split. The reason also names the options that would train on it regardless."""
    return f"micro-batches are refused: {conditions.refused}"


def _value(name: str, conditions: Conditions, poison: str) -> str:
    return poison if name == "skip-batch" else _APPLIES[name](conditions)


_YES = " "
"""The value of a change that applies but doesn't need one."""


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
"""Maps each rung to a function that returns the value of its change, or an empty string if the rung does not apply."""
_MISSING = {
    "micro-batch": "the size of the failed step is unknown, or is one sample",
    "allocator": "no GPU is known",
    "growth": "no GPU is known",
    "no-xla": "the fit was not compiled by XLA",
    "no-onednn": "it was not a segmentation fault",
    "exclude-gpu": "no GPU is known to be broken, or it is the only one",
    "older-checkpoint": "the attempt saved its own checkpoint, or there is no older one",
    "precision": "no GPU is known",
}
