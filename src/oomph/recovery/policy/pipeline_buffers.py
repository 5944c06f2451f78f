"""Whether the buffers of a data pipeline are worth saving, or are better filled anew after a fault. Pure.

A checkpoint of a tf.data iterator holds its shuffle buffer and what it has prefetched: 100 MB for 2000 decoded images.
Saving it costs something at every checkpoint; taking the batches of the epoch again costs something at every fault.
"""

from __future__ import annotations

from dataclasses import dataclass

_COPIES = 3
"""Two checkpoints are kept while a third is written."""
_SHARE_OF_DISK = 0.5
_NEGLIGIBLE_SHARE = 0.005
_NEGLIGIBLE_SECONDS = 0.5
"""Saving that takes no longer, or no more than that share of the training time, is always worth it: it is exact."""


@dataclass(frozen=True)
class PipelineCosts:
    """What was measured, in seconds and bytes."""

    save_seconds: float
    """To save the buffers, while the training waits."""
    save_bytes: int
    replay_seconds: float
    """To take the batches that the epoch has had so far again."""
    between_saves: float
    between_faults: float
    free_bytes: int | None = None
    """Of the disk; None when it is not known."""


def has_room(costs: PipelineCosts) -> bool:
    """Whether the disk can hold the buffers beside everything else."""
    return costs.free_bytes is None or costs.save_bytes * _COPIES <= costs.free_bytes * _SHARE_OF_DISK


def worth_saving(costs: PipelineCosts) -> bool:
    """Whether saving costs little, or less than replaying as a share of the training time, and the disk has room."""
    if not has_room(costs):
        return False
    if costs.save_seconds <= _NEGLIGIBLE_SECONDS:
        return True
    share = costs.save_seconds / max(costs.between_saves, costs.save_seconds, 1e-9)
    return share <= max(_NEGLIGIBLE_SHARE, costs.replay_seconds / costs.between_faults)
