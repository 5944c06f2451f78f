"""What to say of checkpoints that could not be read, and of what takes their place. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Refusal = tuple[str, str]
"""The name of a checkpoint, and why it cannot be used: "tensors.bin does not match its checksum"."""


def of_steps(refusals: Sequence[Refusal], used: str | None) -> list[str]:
    """The lines for checkpoints within a fit.

    Args:
        refusals: those that were met, the newest first.
        used: the name of the one that is used in their place; None when there is none left.
    """
    if not refusals:
        return []
    each = ", ".join(f"{name} ({reason})" for name, reason in refusals)
    if used is not None:
        return [f"checkpoint {each} refused; using the one before it, {used}"]
    if len(refusals) == 1:
        return [f"the only checkpoint cannot be read: {each}", "the interrupted fit starts from its beginning"]
    return [
        f"none of the {len(refusals)} checkpoints can be read: {each}",
        "the interrupted fit starts from its beginning",
    ]


def of_end_states(refusals: Sequence[Refusal]) -> list[str]:
    """The lines for the end state of a fit that had finished."""
    return [f"end state {name} cannot be read ({reason}): that fit is trained again" for name, reason in refusals]
