"""A loop's position in its data, which is saved with TensorFlow's iterators, or else restored by replaying batches."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.resume.loop.steps import Source
from oomph.resume.state import iterators, training_state
from oomph.resume.state.iterators import Told
from oomph.resume.training import retaking
from oomph.resume.training.data_position import DataPosition, Moment, may_be_over, used_in
from oomph.resume.training.fit_objects import from_meta
from oomph.resume.training.retaking import Watched

if TYPE_CHECKING:
    from oomph.resume.loop.state import LoopObjects
    from oomph.resume.training.fits import Fits


class LoopData(DataPosition):
    """Tracks, saves and restores a loop's position in its data."""

    def __init__(self, fits: Fits, objects: LoopObjects, source: Source) -> None:
        super().__init__(fits, objects)
        self._source = source
        dataset = source.dataset
        self._of_tensorflow = isinstance(dataset, tf.data.Dataset) or TENSORFLOW.original_dataset.on(dataset)
        self.epochs = SimpleNamespace(
            data_adapter=SimpleNamespace(py_dataset=dataset if source.is_py_dataset else None), steps_per_epoch=None
        )
        KERAS.distributed_dataset.put(self.epochs, dataset if self._of_tensorflow else None)
        KERAS.current_iterator.put(self.epochs, None)
        KERAS.steps_seen.put(self.epochs, 0)
        """A stand-in for Keras' epoch iterator, with the attributes that `DataPosition` needs."""
        self.differs_at: int | None = None
        """The number of the first replayed batch that differs, counted from 0, or None if all match."""
        self.same = 0
        """The number of replayed batches that matched their fingerprints."""

    def begins(self) -> None:
        """Record the state of the data before an iterator is created."""
        self.epoch_begins(self.epochs)
        self.iterators_made += 1

    def begins_as_before(self, checkpoint: Checkpoint) -> None:
        """Return the data to its earlier state, before the iterator that resumes from a checkpoint is created."""
        if self._of_tensorflow and not self.is_saved_whole(checkpoint, self._source.dataset):
            count = said(checkpoint.meta.iterators_made) - self.iterators_made - 1
            self.pass_over(self.epochs, max(0, count), used_in(checkpoint))
        kept, known = checkpoint.meta.moment, False
        if isinstance(kept, dict):
            found = kept["objects"]
            changes = None if found is None else from_meta(found, training_state.read_arrays(checkpoint, "data/"))
            self.lost += self.go_back_to(Moment(kept["random"], changes))
            self.lost += [] if changes is None else changes.lost
            known = changes is not None
        if not known:
            retaking.pass_epochs(self.epochs, checkpoint.position.epoch)
        self.begins()

    def _position_told(self) -> Told | None:
        return iterators.position_of(self._iterator) if self._tells else None

    def _go_to_told(self, iterator: Any, told: Told) -> bool:
        """Seek to a reported position, trying a spare iterator first, since a failure leaves an iterator unusable."""
        return self._tells and iterators.go_to(self._source.begin(), told) and iterators.go_to(iterator, told)

    @property
    def _tells(self) -> bool:
        return not (self._source.is_one_pass or self._source.is_function or self._source.is_py_dataset)

    def order_to_come_is_by_chance(self, is_last_epoch: bool) -> bool:
        """True if later epochs get a new random order, so that the result differs from that of an uninterrupted run."""
        dataset = KERAS.distributed_dataset.of(self.epochs)
        return not is_last_epoch and dataset is not None and datasets.is_ordered_by_chance(dataset)

    def _is_made_by_python(self, epochs: Any) -> bool:
        return not self._of_tensorflow or super()._is_made_by_python(epochs)

    def _take_anew(self, iterator: Any, batches: Sequence[int], seconds: float = math.inf) -> str:
        if self.moment is not None:
            training_state.restore_random_state(self.moment.random)
        before, random = self._objects.data_now(), training_state.random_state()
        watched, taken = Watched(self._fits.say, seconds), 0
        for batch in watched.take(iterator, self.taken, "replaying the epoch's batches"):
            self._compare(taken, batch, batches)
            taken += 1
        after, random_after = self._objects.data_now(before), training_state.random_state()
        moved = {key for key, content in after.contents.items() if before.contents.get(key) != content}
        moved |= {name for name, value in random_after.items() if random.get(name) != value}
        self.drawn_by_pipeline = frozenset(moved)
        return "replayed" if taken == self.taken or may_be_over(iterator) else "epoch"

    def _compare(self, number: int, batch: Any, known: Sequence[int]) -> None:
        expected = known[number] if number < len(known) else 0
        if not expected or self.differs_at is not None:
            return
        if digest_of(batch) == expected:
            self.same += 1
        else:
            self.differs_at = number


class Digests:
    """Computes fingerprints of only some batches, since each one requires reading the whole batch.

    Args:
        share: the share of the time that the fingerprints may take.
    """

    def __init__(self, share: float) -> None:
        self._share, self._cost, self._at = share, 0.0, time.monotonic()

    def of(self, batch: Any, wanted: bool) -> int:
        """Return a batch's fingerprint, or 0 if it isn't wanted and would exceed the share of the time."""
        started = time.monotonic()
        if not wanted and (started - self._at) * self._share < self._cost:
            return 0
        found = digest_of(batch)
        self._at = time.monotonic()
        self._cost = self._at - started
        return found


def digest_of(batch: Any) -> int:
    """Compute a 64-bit fingerprint of all readable values in a batch of any structure."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in tf.nest.flatten(batch, expand_composites=True):
        if hasattr(leaf, "__array__"):
            digest.update(fingerprints.of_array(np.asarray(leaf)).encode())
        elif isinstance(leaf, (str, bytes, bool, int, float)):
            digest.update(repr(leaf).encode())
    return int.from_bytes(digest.digest(), "little")
