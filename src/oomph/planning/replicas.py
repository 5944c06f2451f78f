"""The replicas of a strategy: each trains a share of the batch on a device of its own, with its own copy of the model.
Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedReplicas:
    """Replicas that share a batch."""

    count: int = 1

    def share(self, batch: int) -> int:
        """The number of samples for the replica that gets most of a batch."""
        return -(-batch // self.count)

    def batch_of(self, share: int) -> int:
        """The batch of which each replica gets `share` samples."""
        return share * self.count

    def words(self, batch: int) -> str:
        """A sentence on how a batch is shared; empty for a single replica."""
        if self.count == 1:
            return ""
        share = self.share(batch)
        most = "" if batch == self.batch_of(share) else "at most "
        return (
            f"Each of {self.count} replicas takes {most}{share:,} samples of the batch of {batch:,}; the sizes are "
            "those of one replica, on its own device."
        )


ALONE = PlannedReplicas()
"""The single replica without a strategy, or with a strategy for one device."""
