"""Epochs that end before all of their steps are done: Keras warns once that the data ran out, and trains less."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.monitor.finding import Finding
from oomph.terminal.amounts import counted


@dataclass(frozen=True)
class ShortEpoch:
    """One of them."""

    epoch: int
    steps: int
    """Number of its steps."""
    wanted: int


class ShortEpochs:
    """The epochs of one fit in which its data ran out, as far as this process has seen them."""

    def __init__(self) -> None:
        self.found: list[ShortEpoch] = []
        self._longest = 0

    def end(self, epoch: int, steps: int, wanted: int | None, is_one_pass: bool = False) -> ShortEpoch | None:
        """Judge an epoch that no callback has ended.

        Args:
            epoch: its index.
            steps: how many steps it had.
            wanted: `steps_per_epoch`; without it data may differ in length, but not end for good.
            is_one_pass: True for a generator, of which Keras keeps only the first two batches for later epochs.
        """
        due = wanted or (self._longest if is_one_pass or not steps else 0)
        self._longest = max(self._longest, steps)
        if steps >= due:
            return None
        short = ShortEpoch(epoch, steps, due)
        self.found.append(short)
        return short

    def finding(self) -> Finding:
        """All of them in words."""
        first, last = self.found[0], self.found[-1]
        if len(self.found) == 1:
            which = f"epoch {first.epoch + 1}, which had {last.steps} of its {counted(last.wanted, 'step')}"
        else:
            missing = sum(each.wanted - each.steps for each in self.found)
            epochs = f"{len(self.found)} epochs, the last of them epoch {last.epoch + 1}"
            which = f"{epochs}: {missing} steps were not trained"
        return Finding(
            fault="input-pipeline", subject="training data", message=f"the data ran out in {which}", kind="ran out",
            remedy=(
                "Leave steps_per_epoch out, or let the data last: dataset.repeat(), while True in a generator, no "
                "__len__ in a PyDataset"
            ),
        )  # fmt: skip
