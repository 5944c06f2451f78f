"""DataPosition: a fit's position in its data, which is saved in a checkpoint, or reached by replaying batches.

A tf.data iterator's checkpoint contains its shuffle buffer and prefetched elements: 100 MB for 2000 decoded images.
Saving them costs time at every checkpoint; replaying the epoch's batches costs time after every fault.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.checkpoint.store import Draft
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.pipelines.datasets import KernelDraws
from oomph.keras_bridge.workers import own_iterator
from oomph.objects.picture import Changes, Picture
from oomph.protocol.reason_table import EARLIER_SHUFFLE
from oomph.protocol.reasons import Reason, because
from oomph.resume.state import iterators, training_state
from oomph.resume.state.iterators import Told
from oomph.resume.state.training_state import Array
from oomph.resume.training import retaking
from oomph.resume.training.fit_objects import FitObjects, as_saved
from oomph.resume.training.retaking import Expected, TookTooLongError, Watched
from oomph.terminal.amounts import as_size
from oomph.terminal.wrapping import shortened

if TYPE_CHECKING:
    from oomph.resume.training.fits import Fits

_MOST_SECONDS_ANEW = 600.0
"""The longest time, in seconds, to replay batches merely to restore random numbers or the order of later batches."""


@dataclass(frozen=True)
class Moment:
    """The state that the data depends on, captured right before an iterator over it is created."""

    random: dict[str, Any]
    """The states of the global random generators."""
    objects: Changes | None
    """Changes to the data's sources, or None for a fit's first iterator, since the script left them unchanged."""


class DataPosition:
    """Tracks, saves and restores a fit's position in its data.

    Args:
        objects: the fit's Python objects.
    """

    def __init__(self, fits: Fits, objects: FitObjects) -> None:
        self._fits, self._objects = fits, objects
        self.taken = 0
        """The number of batches read from the current iterator."""
        self.iterators_made = 0
        """The number of iterators that Keras has created over the training data."""
        self.iterators_used: list[int] = []
        """The numbers of the iterators that batches were read from, counted from 1."""
        self.told: Told | None = None
        """The position that the data reported at the last checkpoint, if any."""
        self.obstacle: Reason | None = None
        """The reason why the iterator cannot be saved, once known."""
        self.moment: Moment | None = None
        """The state before the current iterator was created, if its batches may have to be replayed."""
        self.drawn_by_pipeline: frozenset[str] = frozenset()
        """The objects and global generators that the replay advanced, and which are therefore already correct."""
        self.expected = Expected()
        """Compares the replayed batches with the original ones."""
        self.lost: list[Reason] = []
        """The reasons why a restored position is incomplete."""
        self._made_by_python: bool | None = None
        self._telling: iterators.TellingData | None = None
        self._data_before: Picture | None = None
        """The state of the data's objects when the iterator was created, for data that reports its position."""
        self._told = False
        self._drained: Reason | None = None
        """The reason why the last checkpoint lacks the iterator, if that reason applies only to that checkpoint."""
        self._iterator: Any = None
        self._since = 0.0
        self._recovered = 0
        """The number of batches from the current iterator whose step first ran out of memory, then succeeded."""
        self._recovering = 0.0
        """The total time, in seconds, of the steps on those batches."""
        self._cost: tuple[float, int] | None = None
        """The time it took to save an iterator most recently, in seconds, and the size in bytes."""

    def look_at(self, iterator: Any) -> None:
        """Record the iterator that the next batch comes from."""
        if iterator is not self._iterator:
            self._iterator, self.taken = iterator, 0
            self._begin_measuring()
            self.iterators_used.append(self.iterators_made)

    def epoch_begins(self, epochs: Any) -> None:
        """Record the state that a new iterator over the data will start from. Called when Keras begins an epoch.

        Args:
            epochs: Keras' epoch iterator.
        """
        if self._telling is None or self._telling.dataset is not KERAS.distributed_dataset.of(epochs):
            self._telling = iterators.telling(epochs)
        seen = KERAS.steps_seen.get(epochs, 1)  # before 3.7, Keras does not count steps, and keeps its iterator
        goes_on = epochs.steps_per_epoch is not None and KERAS.current_iterator.of(epochs) is not None and seen
        if goes_on or not (self.obstacle or self._is_made_by_python(epochs)):
            return
        if self._telling is not None:
            self._data_before = self._objects.data_now().let_go()
        first = self.iterators_made == 0
        before = None if self.moment is None else self.moment.objects
        self.moment = Moment(training_state.random_state(), None if first else self._objects.data_changed(before))

    def pass_over(
        self,
        epochs: Any,
        count: int,
        used: Sequence[int],
        first: Any = None,
        between: Callable[[int, Watched], None] = lambda number, watched: None,
    ) -> None:
        """Advance the data past the iterators of earlier epochs, before the iterator of the resumed epoch is created.

        Args:
            count: the number of iterators to pass over.
            used: the numbers of the iterators that batches were read from, counted from 1.
            first: the first of these iterators, if it already exists.
            between: advances the validation data to its position after the given number of iterators.
        """
        watched = Watched(self._fits.say, _MOST_SECONDS_ANEW)
        try:
            numbers = range(self.iterators_made + 1, self.iterators_made + count + 1)
            retaking.pass_over(epochs, numbers, used, watched, first, lambda number: between(number, watched))
            between(self.iterators_made + count, watched)
        except TookTooLongError:
            self.lost.append(because("order-too-long"))
        self.iterators_made += count

    def pass_over_validation(self, catch_up: Callable[[Watched], None]) -> None:
        """Advance the validation data; if that takes too long, record that its position is lost."""
        try:
            catch_up(Watched(self._fits.say, _MOST_SECONDS_ANEW))
        except TookTooLongError:
            self.lost.append(because("validation-too-long"))

    def go_back_to(self, moment: Moment) -> list[Reason]:
        """Restore the state from before an iterator was created, and return the reasons for anything that is lost."""
        self.moment = moment
        lost = self._objects.restore_data(moment.objects or Changes())
        training_state.restore_random_state(moment.random)
        return lost

    def _is_made_by_python(self, epochs: Any) -> bool:
        if self._made_by_python is None:
            self._made_by_python = iterators.depends_on_python(epochs)
        return self._made_by_python

    @property
    def not_saved(self) -> Reason | None:
        """The reason why the last checkpoint does not include the iterator, or None if it does."""
        return None if self.told is not None else self.obstacle or self._drained

    def taken_moment(self) -> tuple[dict[str, Any] | None, list[Array]]:
        """Return the state and arrays that a checkpoint needs for replaying the current iterator's batches, if any."""
        moment = self.moment
        if moment is None:
            return None, []
        if moment.objects is None:
            return {"random": moment.random, "objects": None}, []
        objects, arrays = as_saved(moment.objects.without_altered(), "data/")
        return {"random": moment.random, "objects": objects}, arrays

    def save(self, draft: Draft, between_saves: float) -> None:
        """Save the iterator in a checkpoint draft, if that is possible and worth the cost."""
        self.told = self._position_told()
        if self.told is not None or self.obstacle or not self._pays(between_saves):
            return
        self._drained = iterators.is_caching(self._iterator)
        if self._drained:
            self._tell_obstacle()
            return
        started = time.monotonic()
        self.obstacle = draft.filled(lambda: iterators.save(self._iterator, draft.folder))
        self._drained = draft.filled(lambda: iterators.drop_unusable(self._iterator, draft.folder))
        size = sum(path.stat().st_size for path in draft.folder.iterdir())
        self._cost = (time.monotonic() - started, size)
        self._tell_obstacle()

    def _position_told(self) -> Told | None:
        """Return the position that the data reports, or None if reading cannot simply continue from there."""
        told = None if self._telling is None else self._telling.position(self.taken)
        return told if told is not None and self._nothing_was_drawn() else None

    def _nothing_was_drawn(self) -> bool:
        """True if reading the data has not changed any objects so far; prefetching would change them a second time."""
        if self.moment is None or self._data_before is None:
            return False
        now, then = training_state.random_state(), self.moment.random
        if any(now.get(name) != then.get(name) for name in training_state.OF_PYTHON):
            return False
        return not _moved(self._data_before, self._objects.data_now(self._data_before))

    def _go_to_told(self, iterator: Any, told: Told) -> bool:
        """Seek to a position that the data reported; return False if that is impossible."""
        return self._telling is not None and self._telling.go_to(told, self.taken)

    def _tell_obstacle(self) -> None:
        if self._told:
            return
        lost = datasets.lost_draws(_dataset_of(self._iterator))
        if lost is not None:
            self._told = True
            self._fits.warn(f"a resumed run gets different batches: {lost}. To fix this, {lost.remedy}")
            return
        obstacle = self.obstacle or self._obstacle_of_epoch()
        why = "" if obstacle is None else obstacle.value("why")
        if not why and _draws_of(self._iterator) is KernelDraws.SEEDED:
            why = "the state of its random numbers is inside TensorFlow's kernels"
        if why:
            self._told = True
            by_now = f" ({self.taken} so far{self._replay_in_words()})" if self.taken else ""
            better = "" if obstacle is None else f". To have it saved, {obstacle.remedy}"
            self._fits.say(
                f"the position in the data cannot be saved ({why}): after a fault, the epoch's batches are "
                f"replayed{by_now}{better}"
            )

    def _obstacle_of_epoch(self) -> Reason | None:
        """Return the reason why the last checkpoint lacks the iterator, if it applies from the start of an epoch."""
        drained = self._drained
        return drained if drained is not None and drained.value("kind") == EARLIER_SHUFFLE else None

    def is_saved_whole(self, checkpoint: Checkpoint, dataset: Any) -> bool:
        """True if a checkpoint contains everything that a dataset's next batches depend on."""
        drawn_anew = (KernelDraws.SEEDED, KernelDraws.RACED)
        return iterators.is_saved(checkpoint.path) and datasets.kernel_draws(dataset) not in drawn_anew

    def restore(self, checkpoint: Checkpoint, iterator: Any, steps: Any, batches: Sequence[int] = ()) -> str:
        """Seek to a checkpoint's position. Return "exact", "replayed", or "epoch" if the data runs out before it.

        Args:
            iterator: the iterator over the training data, at the start of the epoch.
            steps: Keras' enumeration of the epoch's steps, or None.
            batches: the known fingerprints of the last batches before the checkpoint.
        """
        if steps is not None:
            KERAS.steps_seen.put(steps, said(checkpoint.meta.steps_seen))
        self.taken = said(checkpoint.meta.taken)
        if checkpoint.meta.told is not None and self._go_to_told(iterator, checkpoint.meta.told):
            return "exact"
        draws, saved = _draws_of(iterator), iterators.is_saved(checkpoint.path)
        lost = datasets.lost_draws(_dataset_of(iterator))
        self.lost += [] if lost is None else [lost]
        if draws is KernelDraws.SEEDED and saved:
            try:
                return self._take_anew(iterator, batches, _MOST_SECONDS_ANEW)
            except TookTooLongError:
                self.lost.append(because("draws-too-many"))
        if saved and self._restored(iterator, checkpoint):
            return "exact"
        return self._take_anew(iterator, batches)

    def _restored(self, iterator: Any, checkpoint: Checkpoint) -> bool:
        try:
            iterators.restore(iterator, checkpoint.path)
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            reason = shortened(str(getattr(error, "message", error)).splitlines()[0], 200)
            self._fits.say(f"the data pipeline does not match the checkpoint ({reason})")
            return False
        return True

    def _take_anew(self, iterator: Any, batches: Sequence[int], seconds: float = math.inf) -> str:
        """Replay the epoch's batches up to the checkpoint, recording the generators and objects that this advances."""
        if self.moment is not None:
            training_state.restore_random_state(self.moment.random)
        before, random = self._objects.data_now(), training_state.random_state()
        self.expected = Expected(self.taken, batches[-self.taken :] if self.taken else ())
        skipped = retaking.skip(iterator, self.taken, Watched(self._fits.say, seconds), self.expected)
        after, random_after = self._objects.data_now(before), training_state.random_state()
        moved = _moved(before, after)
        moved |= {name for name, value in random_after.items() if random.get(name) != value}
        self.drawn_by_pipeline = frozenset(moved)
        return "replayed" if skipped == self.taken or may_be_over(iterator) else "epoch"

    def go_on(self, iterator: Any, checkpoint: Checkpoint, taken: int) -> None:
        """Continue counting batches and iterators from a checkpoint's counts."""
        self._iterator, self.taken = iterator, taken
        self._begin_measuring()
        self.iterators_made = said(checkpoint.meta.iterators_made)
        self.iterators_used = used_in(checkpoint)

    def _pays(self, between_saves: float) -> bool:
        """True if saving the data pipeline's buffers costs less than refilling them after a fault."""
        if self._cost is None or not datasets.is_reproducible(_dataset_of(self._iterator)):
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
                "the disk has too little free space for the data pipeline's buffers: after a fault, the epoch's batches"
                " are replayed instead"
            )
            return False
        self._fits.say_once(
            f"the data pipeline's buffers take {as_size(size)} and {seconds:.1f} s to save: after a fault,"
            f" the epoch's batches are replayed instead{self._replay_in_words()}",
            about="buffers that take too long to save",
        )
        return False

    def step_recovered(self, seconds: float) -> None:
        """Record a step that ran out of memory before it succeeded, since a replay does not repeat that delay.

        Args:
            seconds: the total time that the step took.
        """
        self._recovered, self._recovering = self._recovered + 1, self._recovering + seconds

    def _begin_measuring(self) -> None:
        self._since, self._recovered, self._recovering = time.monotonic(), 0, 0.0

    def _replay_in_words(self) -> str:
        """Describe how long a replay takes at most, or return "" if every step so far ran out of memory first."""
        return f", at most {self._replay_seconds():.0f} s" if self.taken > self._recovered else ""

    def _replay_seconds(self) -> float:
        """Return an upper bound, in seconds, on the time to replay the epoch so far: the time to train on it.

        A batch whose step ran out of memory counts as much as an average batch whose step did not.
        """
        seconds, others = time.monotonic() - self._since, self.taken - self._recovered
        return seconds if others <= 0 else max(0.0, seconds - self._recovering) * self.taken / others


def _moved(before: Picture, after: Picture) -> set[str]:
    """Return the keys of the objects that differ between two pictures; only reading the data can have changed them."""
    return {key for key, content in after.contents.items() if before.contents.get(key) != content} | {*after.troubles}


def used_in(checkpoint: Checkpoint) -> list[int]:
    """Return the numbers, counted from 1, of the iterators that batches were read from before a checkpoint."""
    return said(checkpoint.meta.iterators_used)


def _dataset_of(iterator: Any) -> Any:
    return TENSORFLOW.dataset_of_iterator.get(own_iterator(iterator))


def may_be_over(iterator: Any) -> bool:
    """True if a worker's own data may end before its epoch, which lasts until that of all workers has ended."""
    return own_iterator(iterator) is not iterator


def _draws_of(iterator: Any) -> KernelDraws:
    return datasets.kernel_draws(_dataset_of(iterator))


_COPIES = 3
"""The number of checkpoints on disk at the same time: two are kept while a third is being written."""
_SHARE_OF_DISK = 0.5
_NEGLIGIBLE_SHARE = 0.005
_NEGLIGIBLE_SECONDS = 0.5
"""Buffers are always saved if that takes at most this many seconds, or a negligible share of training time."""


@dataclass(frozen=True)
class PipelineCosts:
    """The costs of saving a pipeline's buffers and of replaying its batches."""

    save_seconds: float
    """The time, in seconds, to save the buffers, during which training waits."""
    save_bytes: int
    replay_seconds: float
    """The time, in seconds, to replay the epoch's batches so far."""
    between_saves: float
    between_faults: float
    free_bytes: int | None = None
    """The free disk space in bytes, or None if unknown."""


def has_room(costs: PipelineCosts) -> bool:
    """True if the disk has room for the buffers."""
    return costs.free_bytes is None or costs.save_bytes * _COPIES <= costs.free_bytes * _SHARE_OF_DISK


def worth_saving(costs: PipelineCosts) -> bool:
    """True if the disk has room, and saving is cheap or takes a smaller share of training time than replaying."""
    if not has_room(costs):
        return False
    if costs.save_seconds <= _NEGLIGIBLE_SECONDS:
        return True
    share = costs.save_seconds / max(costs.between_saves, costs.save_seconds, 1e-9)
    return share <= max(_NEGLIGIBLE_SHARE, costs.replay_seconds / costs.between_faults)
