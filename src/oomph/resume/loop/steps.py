"""Steps: yields a custom training loop's batches, epoch by epoch, and tracks its position. Works without TensorFlow."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Source:
    """The data of a loop.

    Args:
        dataset: an iterable, a Keras PyDataset, or a function without arguments that returns an iterable and is called
            for each epoch.

    Raises:
        TypeError: if `dataset` is none of these.
    """

    def __init__(self, dataset: Any) -> None:
        kind = type(dataset)
        self.dataset = dataset
        self.is_one_pass = hasattr(kind, "__next__")
        self.is_py_dataset = _is_py_dataset(dataset)
        self.is_function = False
        if isinstance(dataset, (str, bytes, dict)):
            raise TypeError(f"dataset is a {kind.__name__}: steps needs something that yields batches")
        if not (self.is_py_dataset or hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
            if not callable(dataset):
                raise TypeError(f"dataset is a {kind.__name__}, which cannot be iterated over")
            self.is_function = True

    def begin(self) -> Iterator[Any]:
        """Start another pass over the data; a one-pass iterator continues where it left off."""
        if self.is_py_dataset:
            return _of_py_dataset(self.dataset)
        return iter(self.dataset() if self.is_function else self.dataset)

    def length(self) -> int | None:
        """Return the number of batches in an epoch, or None if the data does not reveal it."""
        if self.is_one_pass or self.is_function:
            return None
        if self.is_py_dataset:
            number = self.dataset.num_batches
            return None if number is None else int(number)
        try:
            if hasattr(self.dataset, "cardinality"):  # tf.data's, which is negative if infinite or unknown
                number = self.dataset.cardinality
                number = int(number() if callable(number) else number)
                return number if number >= 0 else None
            return len(self.dataset)
        except Exception:  # a length that cannot be read is treated as unknown
            return None


def _is_py_dataset(dataset: Any) -> bool:
    """True if the dataset is a Keras PyDataset, which returns batches by number and is notified of epochs."""
    return (
        any(kind.__name__ == "PyDataset" and kind.__module__.startswith("keras.") for kind in type(dataset).__mro__)
        and "keras" in sys.modules
    )


def _of_py_dataset(dataset: Any) -> Iterator[Any]:
    if hasattr(dataset, "on_epoch_begin"):  # Keras 3.5 does not have this method yet
        dataset.on_epoch_begin()
    for number in range(dataset.num_batches):
        yield dataset[number]
    dataset.on_epoch_end()


class LoopObserver(Protocol):
    """An object that is notified of a loop's steps."""

    def resume(self) -> int | None:
        """Restore the loop and return the number of the epoch to resume from, or None to start from the beginning."""
        ...

    def epoch_begins(self, number: int) -> None:
        """Called before an epoch's iterator is created."""
        ...

    def epoch_began(self) -> None:
        """Called after an epoch's iterator has been created."""
        ...

    def at_border(self) -> None:
        """Called before the next batch is read."""
        ...

    def taken(self, batch: Any) -> None:
        """Called before the loop's body receives a batch."""
        ...

    def stepped(self) -> None:
        """Called after the body is done with the batch and the step has been counted."""
        ...

    def finished(self) -> None:
        """Called when the loop runs to completion."""
        ...

    def left(self) -> None:
        """Called when the loop exits for any reason."""
        ...


class Unwatched:
    """The observer of a loop that is not resumable, which does nothing."""

    def resume(self) -> int | None:
        return None

    def epoch_begins(self, number: int) -> None:
        pass

    def epoch_began(self) -> None:
        pass

    def at_border(self) -> None:
        pass

    def taken(self, batch: Any) -> None:
        pass

    def stepped(self) -> None:
        pass

    def finished(self) -> None:
        pass

    def left(self) -> None:
        pass


_END = object()


class Steps:
    """One loop, which the script iterates over. See `oomph.steps`.

    Args:
        dataset, epochs, state: as in `oomph.steps`.
        watch_of: called when the loop starts; returns the LoopObserver for it.
    """

    def __init__(
        self, dataset: Any, epochs: int | range | None, state: Any, watch_of: Callable[[Steps], LoopObserver]
    ) -> None:
        self._watch_of = watch_of
        self.source = Source(dataset)
        self.epochs = _checked_epochs(epochs, self.source)
        self.state = _checked_state(state)
        """The `state` argument."""
        self.epoch = 0
        """The current epoch: a number counted from 0, or a value from the given range."""
        self.step = 0
        """The number of steps done in this epoch, which is also the number of the current step, counted from 0."""
        self.steps = 0
        """The number of steps done in all epochs."""
        self.drawn = 0
        """The number of batches read from the current iterator."""
        self.ahead: list[Any] = []
        """The batch read ahead to find out whether the epoch is over; empty if none was read."""
        self.iterator: Iterator[Any] = iter(())
        self.number = 0
        """The number of the current epoch, counted from 0."""
        self.length: int | None = None
        """The number of steps per epoch, if known."""
        self.place = _place()

    @property
    def ends_epoch(self) -> bool:
        """True if the current batch is the last of its epoch.

        If the length of the data is unknown (a generator, a filtered dataset), the next batch is read to find out. The
        source is then one batch ahead of the loop.
        """
        if self.length is not None:
            return self.step + 1 >= self.length
        if not self.ahead:
            self.ahead.append(self._draw())
        return self.ahead[0] is _END

    @property
    def is_at_last_step(self) -> bool:
        """True if exactly one step of the loop is known to remain. Only valid between two steps."""
        return self.is_in_last_epoch and self.length is not None and self.step + 1 == self.length

    @property
    def is_in_last_epoch(self) -> bool:
        """True if this epoch is known to be the last."""
        return self.epochs is not None and self.number + 1 >= len(self.epochs)

    def __iter__(self) -> Iterator[Any]:
        watch = self._watch_of(self)
        try:
            resumed = watch.resume()
            for self.number in itertools.count(resumed or 0):
                if self.epochs is not None and self.number >= len(self.epochs):
                    break
                if resumed is None:
                    watch.epoch_begins(self.number)
                    self.begin_epoch(self.number)
                    watch.epoch_began()
                resumed = None
                while True:
                    watch.at_border()
                    batch = self.ahead.pop() if self.ahead else self._draw()
                    if batch is _END:
                        break
                    watch.taken(batch)
                    yield batch
                    del batch  # free this batch before the next one is created
                    self.step += 1
                    self.steps += 1
                    watch.stepped()
                if self.epochs is None and self.source.is_one_pass:
                    break
            watch.finished()
        finally:
            watch.left()

    def begin_epoch(self, number: int) -> None:
        """Create an epoch's iterator."""
        self.number = number
        self.epoch = number if self.epochs is None else self.epochs[number]
        if number == 0:
            self.steps = 0
        self.step = self.drawn = 0
        self.ahead.clear()
        self.iterator = self.source.begin()
        self.length = self.source.length()

    def drop(self) -> bool:
        """Skip the next batch; return False if there is none."""
        return (self.ahead.pop() if self.ahead else self._draw()) is not _END

    def held(self) -> list[Any]:
        """Return the batches read ahead that the body has not received yet."""
        return [batch for batch in self.ahead if batch is not _END]

    def _draw(self) -> Any:
        batch = next(self.iterator, _END)
        self.drawn += batch is not _END
        return batch

    def __repr__(self) -> str:
        return f"<oomph.steps: epoch {self.epoch}, step {self.step}, {self.steps} steps>"


def _checked_epochs(given: Any, source: Source) -> range | None:
    if given is None:
        return None
    if isinstance(given, bool) or not (isinstance(given, range) or hasattr(type(given), "__index__")):
        raise TypeError(f"epochs must be a whole number, a range or None, not {given!r}")
    epochs = given if isinstance(given, range) else range(given.__index__())
    if not isinstance(given, range) and given < 0:
        raise ValueError(f"epochs must not be negative: {given}")
    if source.is_one_pass and len(epochs) > 1:
        raise ValueError(
            f"dataset is a {type(source.dataset).__name__}, which can be iterated only once, but epochs is "
            f"{len(epochs)}: pass a function that returns a new one for each epoch"
        )
    return epochs


def _checked_state(state: Any) -> Any:
    if state is None:
        raise TypeError("state=None: list the objects that the loop changes, such as state=[model, optimizer]")
    if isinstance(state, (list, tuple, dict)) and not state:
        raise ValueError("state is empty: list the objects that the loop changes, such as state=[model, optimizer]")
    if "tensorflow" in sys.modules:
        import keras  # noqa: F401  # with Keras 2 in its place, nothing has imported it: this installs the guard

        from oomph.resume.loop.state import roots_of

        roots_of(state)
    return state


def _place() -> Any:
    """Return the place where the script creates the loop, or None outside a run, where it isn't needed."""
    from oomph.script import session

    if session.current() is None or "tensorflow" not in sys.modules:
        return None
    try:
        from oomph.resume.training.call_place import place_of_call

        return place_of_call()
    except Exception:
        return None  # a loop of unknown origin is not resumable
