"""steps: the batches of a training loop of the script's own, so that the loop can be resumed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from oomph.tensorflow.loop.source import Source

_END = object()


class Watch(Protocol):
    """Who is told of the steps of a loop."""

    def resume(self) -> int | None:
        """The number of the epoch to go on in, its iterator made and its position found; None to begin."""
        ...

    def epoch_begins(self, number: int) -> None:
        """Before the iterator of an epoch is made."""
        ...

    def epoch_began(self) -> None:
        """After that."""
        ...

    def at_border(self) -> None:
        """Before the next batch is taken."""
        ...

    def taken(self, batch: Any) -> None:
        """Before the body gets a batch."""
        ...

    def stepped(self) -> None:
        """After the body is through with it, and it has been counted."""
        ...

    def finished(self) -> None:
        """The loop has come to its end by itself."""
        ...

    def left(self) -> None:
        """The loop is over, however that came."""
        ...


class Unwatched:
    """Nobody: the loop is a plain one."""

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


def steps(dataset: Any, epochs: int | range | None = 1, *, state: Any) -> Steps:
    """The batches of a training loop, epoch after epoch, in a form in which `oomph run` can resume the loop.

        steps = oomph.steps(dataset, epochs=3, state=[model, optimizer, accuracy, history])
        for batch in steps:
            loss = train_step(batch)
            if steps.ends_epoch:
                history.append(float(accuracy.result()))
                accuracy.reset_state()

    Without `oomph run` it is `for epoch in range(epochs): for batch in dataset: yield batch`. Under it, checkpoints
    are taken between two steps; after a fault the script runs again from its top, and this loop goes on with the batch
    that comes next, everything in `state` and the global random numbers as they were. A loop that had come to its end
    does its last step again, and no more: what the body assigns is there, and the result is compared with the first.

    Args:
        dataset: a `tf.data.Dataset`, a PyDataset, a list or another iterable; a function without arguments that
            returns an iterable, called for each epoch; an iterator or generator, which has one epoch.
        epochs: how often to go through the data; a range gives `epoch` its values; None: until the body breaks off.
        state: everything that the loop changes and that matters after a restart: a list, or a dict with names. Models,
            optimizers, metrics, variables, random generators, dicts, lists, arrays, objects of your own; those with
            `get_state()` and `set_state(state)`, or `state_dict()` and `load_state_dict(state)`, are saved by these.
            What is assigned anew in the loop, such as a number, belongs into one of these.

    Returns:
        What to iterate over. It tells where the loop is: `epoch`, `step`, `steps` and `ends_epoch`.

    Raises:
        TypeError, ValueError: at once, when an argument makes no sense, or something in `state` cannot be saved.
    """
    return Steps(dataset, epochs, state)


class Steps:
    """One loop: iterate over it. See `steps`."""

    def __init__(self, dataset: Any, epochs: int | range | None, state: Any) -> None:
        self.source = Source(dataset)
        self.epochs = _checked_epochs(epochs, self.source)
        self.state = _checked_state(state)
        """What was given as state."""
        self.epoch = 0
        """The present epoch: counted from 0, or of the range that was given."""
        self.step = 0
        """The steps of this epoch that are done: the number of the present one, counted from 0."""
        self.steps = 0
        """The same over all epochs."""
        self.drawn = 0
        """Batches taken from the present iterator."""
        self.ahead: list[Any] = []
        """A batch that was taken to see whether there is one."""
        self.iterator: Iterator[Any] = iter(())
        self.number = 0
        """Of the present epoch, counted from 0."""
        self._length: int | None = None
        self.place = _place()

    @property
    def ends_epoch(self) -> bool:
        """Whether the present batch is the last of its epoch.

        Where the data do not know their length (a generator, a filtered data set), the next batch is taken to see: the
        source is then one batch ahead of the loop.
        """
        if self._length is not None:
            return self.step + 1 >= self._length
        if not self.ahead:
            self.ahead.append(self._draw())
        return self.ahead[0] is _END

    @property
    def is_at_last_step(self) -> bool:
        """Between two steps: whether it is known that only one is left."""
        return self.is_in_last_epoch and self._length is not None and self.step + 1 == self._length

    @property
    def is_in_last_epoch(self) -> bool:
        """Whether it is known that no epoch comes after this one."""
        return self.epochs is not None and self.number + 1 >= len(self.epochs)

    def __iter__(self) -> Iterator[Any]:
        watch = _watch_of(self)
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
                    del batch  # the next one is made while nobody holds this one
                    self.step += 1
                    self.steps += 1
                    watch.stepped()
                if self.epochs is None and self.source.is_one_pass:
                    break
            watch.finished()
        finally:
            watch.left()

    def begin_epoch(self, number: int) -> None:
        """Make the iterator of an epoch."""
        self.number = number
        self.epoch = number if self.epochs is None else self.epochs[number]
        if number == 0:
            self.steps = 0
        self.step = self.drawn = 0
        self.ahead.clear()
        self.iterator = self.source.begin()
        self._length = self.source.length()

    def drop(self) -> bool:
        """Leave out the next batch; False when there is none."""
        return (self.ahead.pop() if self.ahead else self._draw()) is not _END

    def held(self) -> list[Any]:
        """The batches that were taken and that the body has not had."""
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
            f"dataset is a {type(source.dataset).__name__}, which can be gone through only once, and epochs is"
            f" {len(epochs)}: give a function that makes a new one for each epoch"
        )
    return epochs


def _checked_state(state: Any) -> Any:
    if state is None:
        raise TypeError("state=None: list what the loop changes, such as state=[model, optimizer]")
    if isinstance(state, (list, tuple, dict)) and not state:
        raise ValueError("state is empty: list what the loop changes, such as state=[model, optimizer]")
    if "tensorflow" in sys.modules:
        from oomph.tensorflow.loop.roots import roots_of

        roots_of(state)
    return state


def _place() -> Any:
    """Where the script makes the loop; None outside a run, where nobody asks."""
    from oomph.recovery.script import session

    if session.current() is None or "tensorflow" not in sys.modules:
        return None
    try:
        from oomph.tensorflow.training.call_place import place_of_call

        return place_of_call()
    except Exception:
        return None  # without one the loop is plain


def _watch_of(steps: Steps) -> Watch:
    """Who is to be told of this loop: nobody outside of a run."""
    from oomph.recovery.script import session

    if session.current() is None or "tensorflow" not in sys.modules or steps.place is None:
        return Unwatched()
    from oomph.tensorflow.loop import loops

    return loops.begin(steps)
