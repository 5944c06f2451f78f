"""Decides whether to save the buffers of a data pipeline or refill them after a fault. Pure; script process.

A checkpoint of a tf.data iterator holds its shuffle buffer and prefetched elements: 100 MB for 2000 decoded images.
Saving them costs time at every checkpoint; replaying the batches of the epoch costs time at every fault.
"""

from __future__ import annotations

from dataclasses import dataclass

_COPIES = 3
"""The checkpoints on disk at once: two are kept while a third is written."""
_SHARE_OF_DISK = 0.5
_NEGLIGIBLE_SHARE = 0.005
_NEGLIGIBLE_SECONDS = 0.5
"""Buffers that are saved within these seconds, or within a small share of the training time, are always saved."""


@dataclass(frozen=True)
class PipelineCosts:
    """The costs of saving a pipeline's buffers, and of replaying its batches."""

    save_seconds: float
    """Seconds to save the buffers, while the training waits."""
    save_bytes: int
    replay_seconds: float
    """Seconds to replay the batches of the epoch so far."""
    between_saves: float
    between_faults: float
    free_bytes: int | None = None
    """Free disk space in bytes; None if unknown."""


def has_room(costs: PipelineCosts) -> bool:
    """True if the disk has room for the buffers."""
    return costs.free_bytes is None or costs.save_bytes * _COPIES <= costs.free_bytes * _SHARE_OF_DISK


def worth_saving(costs: PipelineCosts) -> bool:
    """True if the disk has room, and saving costs little or a smaller share of the training time than replaying."""
    if not has_room(costs):
        return False
    if costs.save_seconds <= _NEGLIGIBLE_SECONDS:
        return True
    share = costs.save_seconds / max(costs.between_saves, costs.save_seconds, 1e-9)
    return share <= max(_NEGLIGIBLE_SHARE, costs.replay_seconds / costs.between_faults)
