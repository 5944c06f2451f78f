"""DataPosition: where a fit is in its training data, and whether a checkpoint holds that or its batches come anew."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from oomph.recovery.checkpoint import Checkpoint
from oomph.recovery.pipeline import PipelineCosts, has_room, worth_saving
from oomph.recovery.store import Draft
from oomph.tensorflow import iterators

if TYPE_CHECKING:
    from oomph.tensorflow.fits import Fits


class DataPosition:
    """The position of one fit in its data.

    Args:
        fits: the fits of this process.
    """

    def __init__(self, fits: Fits) -> None:
        self._fits = fits
        self.taken = 0
        """Batches taken from the present iterator."""
        self.iterators_made = 0
        """Iterators that Keras has made over the training data."""
        self.obstacle = ""
        """Why the iterator can not be saved, once that is known."""
        self._drained = ""
        """Why it could not be saved at the last checkpoint alone."""
        self._iterator: Any = None
        self._since = 0.0
        self._cost: tuple[float, int] | None = None
        """Seconds and bytes of the last time it was saved."""

    def look_at(self, iterator: Any) -> None:
        """The next batch will come from this iterator."""
        if iterator is not self._iterator:
            self._iterator, self.taken, self._since = iterator, 0, time.monotonic()

    @property
    def not_saved(self) -> str:
        """Why the last checkpoint does not hold the iterator; empty when it does."""
        return self.obstacle or self._drained

    def save(self, draft: Draft, between_saves: float) -> None:
        """Save the iterator with a checkpoint that has been begun, if it can be and is worth it."""
        if self.obstacle or not self._pays(between_saves):
            return
        started = time.monotonic()
        self.obstacle = draft.filled(lambda: iterators.save(self._iterator, draft.folder))
        self._drained = draft.filled(lambda: iterators.drop_drained(self._iterator, draft.folder))
        size = sum(path.stat().st_size for path in draft.folder.iterdir())
        self._cost = (time.monotonic() - started, size)
        if self.obstacle:
            self._fits.say_once(
                f"the position in the data can not be saved ({self.obstacle}): after a fault the {self.taken} batches"
                f" that the epoch has had so far are taken anew, {self._replay_seconds():.0f} s at most by now"
            )

    def restore(self, checkpoint: Checkpoint, iterator: Any, steps: Any) -> str:
        """Go to where a checkpoint was; returns "exact", "replayed", or "epoch" when the data have ended before.

        Args:
            iterator: over the training data, from the beginning of the epoch.
            steps: Keras' enumeration of the steps of the epoch, or None.
        """
        if steps is not None:
            steps._steps_seen = int(checkpoint.meta["steps_seen"])
        self.taken = int(checkpoint.meta["taken"])
        if iterators.is_saved(checkpoint.path):
            try:
                iterators.restore(iterator, checkpoint.path)
                return "exact"
            except (tf.errors.OpError, AssertionError, ValueError) as error:
                reason = str(getattr(error, "message", error)).splitlines()[0][:200]
                self._fits.say(f"the data pipeline is not the one of the checkpoint ({reason})")
        return "replayed" if iterators.skip(iterator, self.taken, self._fits.say) == self.taken else "epoch"

    def go_on(self, iterator: Any, iterators_made: int, taken: int) -> None:
        """Count on from where a checkpoint was."""
        self._iterator, self._since = iterator, time.monotonic()
        self.taken, self.iterators_made = taken, iterators_made

    def _pays(self, between_saves: float) -> bool:
        """Whether to save the buffers of the data pipeline, or to fill them anew after a fault."""
        if self._cost is None or not iterators.is_reproducible(self._iterator):
            return True
        seconds, size = self._cost
        costs = PipelineCosts(
            save_seconds=seconds,
            save_bytes=size,
            replay_seconds=self._replay_seconds(),
            between_saves=between_saves,
            between_faults=self._fits.seconds_between_faults(),
            free_bytes=self._fits.free_bytes(),
        )
        if worth_saving(costs):
            return True
        if not has_room(costs):
            self._fits.say_once(
                "the disk has too little room for the buffers of the data pipeline: after a fault the batches of the"
                " epoch are taken anew instead"
            )
            return False
        self._fits.say_once(
            f"the buffers of the data pipeline take {size / 1e6:.0f} MB and {seconds:.1f} s to save: after a fault"
            f" the batches of the epoch are taken anew instead, {self._replay_seconds():.0f} s at most by now"
        )
        return False

    def _replay_seconds(self) -> float:
        """The most that taking the epoch's batches again can cost: as long as training on them has taken."""
        return time.monotonic() - self._since
