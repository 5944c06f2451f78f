"""Replays batches for a resumed fit: those of the current epoch, and any that are needed from earlier epochs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.workers import own_iterator

_TELL_SECONDS = 2.0


class TookTooLongError(Exception):
    """Raised if batches cannot be replayed within the time limit."""


class Expected:
    """Compares the batches to skip with their known fingerprints.

    Args:
        count: the number of batches to skip.
        fingerprints: the known fingerprints of the last of these batches.
    """

    def __init__(self, count: int = 0, fingerprints: Sequence[int] = ()) -> None:
        self._count, self._known = count, fingerprints
        self.compared = 0
        """The number of batches that matched their fingerprints."""
        self.differs_at: int | None = None
        """The number of the first batch that differs, counted from 0, or None if all match."""

    def see(self, number: int, batch: Any) -> None:
        """Compare a batch with its known fingerprint."""
        at = number - (self._count - len(self._known))
        if not 0 <= at < len(self._known) or not self._known[at] or self.differs_at is not None:
            return
        parts = [part for own in _of_each_replica(batches.without_optionals(batch)) for part in batches.tensors_of(own)]
        if fingerprints.as_number(fingerprints.of_tensors(parts)) == self._known[at]:
            self.compared += 1
        else:
            self.differs_at = number


def _of_each_replica(batch: Any) -> list[Any]:
    """Return each replica's batch if a strategy distributed the batch; otherwise a list of just the batch."""
    leaves = tf.nest.flatten(batch)
    values = [leaf.values if isinstance(leaf, tf.distribute.DistributedValues) else (leaf,) for leaf in leaves]
    count = max((len(each) for each in values), default=1)
    columns = [each if len(each) == count else each * count for each in values]
    return [tf.nest.pack_sequence_as(batch, [column[number] for column in columns]) for number in range(count)]


class Watched:
    """Reads batches, reports progress, and gives up after a time limit.

    Args:
        tell: called periodically with a progress message.
        seconds: the time limit for all batches together.
    """

    def __init__(self, tell: Callable[[str], None], seconds: float = math.inf) -> None:
        self._tell, self._seconds = tell, seconds
        self._started = self._told = time.monotonic()

    def take(self, iterator: Any, count: int | None, what: str) -> Iterator[Any]:
        """Yield up to `count` batches, or all if `count` is None. Raises TookTooLongError after the time limit.

        A worker does so by itself where it can, since another one may have saved its position.
        """
        taken, iterator = 0, own_iterator(iterator)
        while count is None or taken < count:
            try:
                batch = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                return
            taken += 1
            yield batch
            self._look(f"{what}: {taken}" + ("" if count is None else f" of {count}"))

    def _look(self, text: str) -> None:
        now = time.monotonic()
        if now - self._started > self._seconds:
            raise TookTooLongError
        if now - self._told >= _TELL_SECONDS:
            self._told = now
            self._tell(f"{text}, {now - self._started:.0f} s")


def skip(iterator: Any, count: int, watched: Watched, expected: Expected) -> int:
    """Read up to `count` batches and drop them; return the number dropped. Raises TookTooLongError."""
    taken = -1
    for taken, batch in enumerate(watched.take(iterator, count, "replaying the epoch's batches")):
        expected.see(taken, batch)
    return taken + 1


def pass_over(
    epochs: Any,
    numbers: range,
    used: Container[int],
    watched: Watched,
    first: Any = None,
    before_each: Callable[[int], None] = lambda number: None,
) -> None:
    """Advance the data of a Keras epoch iterator past the iterators with these numbers.

    A shuffled dataset draws new seeds for every iterator, so a process that skips epochs must still create their
    iterators. If that is not enough, their batches are replayed. Raises TookTooLongError if that takes too long.

    Args:
        numbers: the numbers of the iterators, counted from 1.
        used: the numbers of the iterators that batches were read from; Keras creates some that it never uses.
        first: the first of the iterators, if it already exists.
        before_each: called before each iterator with the number of iterators created so far.
    """
    dataset = KERAS.distributed_dataset.of(epochs)
    whole = not datasets.is_begun_by_making(dataset)
    for number in numbers:
        before_each(number - 1)
        iterator = iter(dataset) if first is None or number > numbers[0] else first
        if whole and number in used:
            for _ in watched.take(iterator, None, "replaying the data of earlier epochs"):
                pass


def pass_epochs(epochs: Any, count: int) -> None:
    """Notify a PyDataset of the epochs that an earlier attempt completed: many reorder their samples between epochs."""
    dataset: Any = getattr(epochs.data_adapter, "py_dataset", None)
    for _ in range(0 if dataset is None else count):
        if hasattr(dataset, "on_epoch_begin"):  # Keras 3.5 does not have this method yet
            dataset.on_epoch_begin()
        dataset.on_epoch_end()
