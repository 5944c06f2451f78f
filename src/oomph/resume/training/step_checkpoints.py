"""StepCheckpoints: decides when to save between two training steps, writes the state, and reports the checkpoint."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import tensorflow as tf

from oomph.checkpoint.container import CheckpointWriter, Position
from oomph.checkpoint.interval import Cost, typical
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore, Draft, Saved
from oomph.errors import CheckpointError
from oomph.journal.events import AtStep, CheckpointFailed, CheckpointSaved, CheckpointSkipped, FindingMade
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.objects.picture import Changes
from oomph.objects.values import Value
from oomph.process.available_memory import available_bytes
from oomph.protocol.borders import PATIENCE_SECONDS
from oomph.protocol.progress import Phase
from oomph.protocol.reasons import Reason, because
from oomph.resume.state import training_state
from oomph.resume.state.training_state import Array, NotFiniteError
from oomph.resume.training.fits import Fits
from oomph.terminal.amounts import as_size
from oomph.terminal.wrapping import shortened

_BACKGROUND_BYTES = 4 << 20
_BACKGROUND_SECONDS = 0.1
"""A state smaller than `_BACKGROUND_BYTES` that is written in less than this many seconds isn't worth a thread."""
_SHARE_OF_MEMORY = 0.25
"""The largest share of the host's free memory that the copy for a background write may use."""
_ERRORS = (CheckpointError, tf.errors.OpError, ValueError)


@dataclass(frozen=True)
class StateSnapshot:
    """Describes a state being saved, and the position at which it was captured."""

    at: Position
    seconds: float
    """The time for which training paused, in seconds."""
    iterator: Reason | None
    """The reason why the state lacks the data position, or None if it includes the position."""


class SavedTraining(Protocol):
    """The fit or loop being saved."""

    fits: Fits

    @property
    def position(self) -> Position:
        """The position of the next step."""

    @property
    def strategy(self) -> Any:
        """The strategy under which the training runs, or None if unknown."""

    @property
    def steps_at_once(self) -> int:
        """The number of steps between two borders."""

    def note_here(self, fact: AtStep) -> None:
        """Write an event to the journal, with the current position."""

    def write_board(self) -> None:
        """Update the progress board."""


class StepCheckpoints(ABC):
    """Saves the checkpoints of one fit or loop, each right before a step."""

    def __init__(self, training: SavedTraining) -> None:
        self._training, self._fits = training, training.fits
        self._borders = training.fits.common_borders(training.strategy)
        """The borders at which all workers save or stop, or None if this training waits for no other process."""
        self._saved_at_step = training.fits.steps
        self._saved_at, self._stall, self._write = time.monotonic(), 0.0, 0.0
        self._stalls: list[float] = []
        """The time for which training paused, in seconds, for each checkpoint between steps."""
        self._typical = training.fits.typical_stall or training.fits.end_state_seconds
        """The typical stall per checkpoint, in seconds, taken from earlier fits and loops until one is measured."""
        self._between_saves = 0.0
        self._told_interval = self._told_not_finite = self._told_growth = False
        self._growing = Growing()
        self._snapshot: StateSnapshot | None = None
        """The state currently being written in the background, if any."""

    # -- capturing the state ------------------------------------------------------------------------------------------

    @abstractmethod
    def _save_step(self, store: CheckpointStore, at: Position, started: float) -> None:
        """Capture the state at this step and write it."""

    def _can_be_saved(self) -> bool:
        """True if a restarted script could use the checkpoint."""
        return True

    @abstractmethod
    def _path_of(self, name: str) -> str:
        """Return a variable's readable path, given its name in a checkpoint."""

    # -- timing -------------------------------------------------------------------------------------------------------

    def save_now(self) -> None:
        """Save a checkpoint before the process exits, unless this step is already saved."""
        if self._fits.steps != self._saved_at_step:
            self._save()
        self.settle(wait=True)

    def count_from(self, steps: int) -> None:
        """Record that the latest checkpoint was taken after `steps` steps of the run."""
        self._fits.saved = self._saved_at_step = steps
        self._saved_at = time.monotonic()
        if self._borders is not None:
            self._borders.resumed(steps)

    def begin_at(self, steps: int) -> None:
        """Count the steps to the next checkpoint from `steps`, because the script itself resumed there."""
        self._saved_at_step = steps

    def settle(self, wait: bool) -> None:
        """Record the outcome of the background write once it is complete, waiting for it if `wait` is True."""
        outcome = self._fits.background.take(wait)
        if outcome is None or self._snapshot is None:
            return
        snapshot, self._snapshot = self._snapshot, None
        self._write = outcome.seconds
        if outcome.error is not None:
            self._say_failed(outcome.error, "checkpoint", snapshot.at)
        elif outcome.result is not None:
            self._note_saved(outcome.result, snapshot)

    def _look_for_written(self) -> None:
        if self._snapshot is not None:
            self.settle(wait=False)

    def is_to_stop(self) -> bool:
        """True if a signal has asked this process to end here, or all workers together."""
        preemption = self._fits.preemption
        if self._borders is None:
            return bool(preemption.asked) and self._fits.own_session().is_owner_now()
        signum = self._borders.stop(self._fits.steps)
        if signum and not preemption.asked:
            preemption.asked = signal.Signals(signum).name
        return bool(signum)

    def _is_due(self) -> bool:
        """True if a checkpoint is due at this border. Called once at each."""
        steps = self._fits.steps
        if self._borders is None:
            return self._will_be_due(0, 0.0)
        asked = self._fits.preemption.asked
        signum = signal.Signals[asked].value if asked else 0
        self._borders.arrive(steps, self._training.steps_at_once, self._will_be_due, signum)
        if self._borders.missing is not None:
            rank, common = self._borders.missing, self._borders.common
            self._fits.warn_once(
                f"worker {rank} has not saved with the others for {PATIENCE_SECONDS:.0f} s: after a fault, all start"
                f" from {f'the checkpoint of step {common}' if common else 'the beginning'}"
            )
        return steps > self._saved_at_step and self._borders.is_due

    def _will_be_due(self, steps: int, seconds: float) -> bool:
        """True if a checkpoint is due so many steps and seconds from here."""
        since = self._fits.steps + steps - self._saved_at_step
        return self._fits.interval.due(since, time.monotonic() + seconds - self._saved_at, self._cost())

    def _cost(self) -> Cost:
        fits, since = self._fits, time.monotonic() - self._saved_at
        return Cost(
            stall_seconds=self._typical,
            write_seconds=self._write,
            between_faults=fits.seconds_between_faults(),
            trained_seconds=max(0.0, fits.trained_seconds() - since),
            spent_seconds=fits.saving_seconds,
            is_rough=fits.measured <= 1,
        )

    def _measured(self, stall: float) -> None:
        self._stalls.append(stall)
        self._typical = self._fits.typical_stall = typical(self._stalls)
        self._fits.measured += 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def _store(self) -> CheckpointStore | None:
        """Return the checkpoint store, which keeps what other workers may need."""
        store = self._fits.store()
        if store is not None and self._borders is not None:
            store.common = self._borders.common
        return store

    def _save(self) -> None:
        """Capture the state while training pauses, and write it immediately, or in the background if that pays off."""
        store = self._store()
        self._between_saves = time.monotonic() - self._saved_at
        self._saved_at, self._saved_at_step = time.monotonic(), self._fits.steps
        if store is None or self._fits.context_lost or not self._can_be_saved():
            return
        started, at = time.monotonic(), self._training.position
        self.settle(wait=True)
        self._attempted(lambda: self._save_step(store, at, started), "checkpoint")

    def _complete(
        self, draft: Draft, taken: tuple[Meta, list[Array]], named: training_state.Named,
        finite: frozenset[str], snapshot: Callable[[], StateSnapshot],
    ) -> None:  # fmt: skip
        """Write the captured state and the variables immediately, or in the background if that pays off.

        Args:
            taken: the JSON part and the arrays, which may share the script's memory.
            finite: the names of the variables that must be finite.
            snapshot: called once training may continue; returns the position at which the state was captured.
        """
        meta, own = taken
        if not self._pays_in_background(named, own):
            saved = draft.complete(meta, _writer(lambda: training_state.values_of(named), own, finite))
            found = snapshot()
            self._stall, self._write = found.seconds, 0.0
            self._measured(found.seconds)
            self._note_saved(saved, found)
            return
        values, own = list(training_state.values_of(named)), [array.detached() for array in own]
        self._snapshot = snapshot()
        self._stall = self._snapshot.seconds
        self._measured(self._stall)
        self._fits.background.start(partial(draft.complete, meta, _writer(lambda: values, own, finite)))

    def _pays_in_background(self, named: training_state.Named, own: Sequence[Array]) -> bool:
        size = sum(slot.nbytes for _, slot in named) + sum(array.nbytes for array in own)
        room = available_bytes()
        if room is not None and size > room * _SHARE_OF_MEMORY:
            return False
        return size >= _BACKGROUND_BYTES or self._stall + self._write >= _BACKGROUND_SECONDS

    def _attempted(self, save: Callable[[], Any], what: str) -> Any:
        """Return the result of `save`. If it fails, report the failure and return None, so that training continues."""
        try:
            with self._fits.session.pulse.during(Phase.CHECKPOINT):
                return save()
        except _ERRORS as error:
            self._say_failed(error, what, self._training.position)
            return None
        finally:
            self._saved_at = time.monotonic()

    def _look_at_growth(self, sizes: Sizes) -> None:
        finding = None if self._told_growth else self._growing.noted(sizes)
        if finding is not None:
            self._told_growth = True
            self._fits.note(FindingMade(**as_data(finding)))
            self._fits.say(in_words(finding))

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _say_failed(self, error: Exception, what: str, at: Position) -> None:
        if isinstance(error, NotFiniteError):
            saved = self._fits.saved
            stays = f"the checkpoint of step {saved} is kept" if saved else "there is none yet"
            kept = f"the checkpoint of step {saved}" if saved else "no checkpoint: there was none yet"
            self._say_not_finite(str(error), at, f"this state is not saved; {stays}", kept)
            return
        reason = shortened(str(getattr(error, "message", error)).splitlines()[0], 300)
        self._training.note_here(CheckpointFailed(reason=reason))
        self._fits.warn_once(f"{what} could not be written: {reason.partition(' (')[0]}; training continues")

    def _say_not_finite(self, name: str, at: Position, outcome: str, kept: str) -> None:
        path = self._path_of(name)
        self._training.note_here(CheckpointSkipped(**because("not-finite", name=path).as_fields(), kept=kept))
        if not self._told_not_finite:
            self._told_not_finite = True
            self._fits.warn(f"{path} has NaN or infinity at epoch {at.epoch + 1}, step {at.step}: {outcome}")

    def _note_saved(self, saved: Saved, snapshot: StateSnapshot) -> None:
        at = snapshot.at
        self._fits.saved = at.steps
        if self._borders is not None:
            self._borders.saved(at.steps)
        self._fits.saving_seconds += snapshot.seconds
        self._training.write_board()
        self._fits.note(
            CheckpointSaved(
                name=saved.name,
                fit=at.fit,
                epoch=at.epoch,
                step=at.step,
                steps=at.steps,
                bytes=saved.nbytes,
                seconds=round(snapshot.seconds, 4),
                background_seconds=round(self._write, 4),
                iterator="saved" if snapshot.iterator is None else str(snapshot.iterator.value("why")),
                why=None if snapshot.iterator is None else snapshot.iterator.as_data(),
            )
        )
        is_last = saved.name.startswith("finished") or self._fits.preemption.asked
        if not self._told_interval and not is_last:
            self._told_interval = True
            behind = f" and {self._write:.2f} s in the background" if self._write else ""
            rule = self._fits.interval.describe(self._cost())
            line = f"checkpoint of {as_size(saved.nbytes)} in {self._stall:.2f} s{behind}; next {rule}"
            self._fits.say_some(line, after="later fits and loops are checkpointed as well")


def _writer(
    values: Callable[[], Iterable[Array]], own: list[Array], finite: frozenset[str]
) -> Callable[[CheckpointWriter], None]:
    def write(writer: CheckpointWriter) -> None:
        training_state.write(writer, values(), finite)
        training_state.write(writer, own)

    return write


_LEAST_BYTES = 64 << 20
_IN_A_ROW = 8
"""The number of successively larger checkpoints that count as growth. Most buffers are full by then: with three, each
of three healthy scripts with a buffer was told that it grows (measured)."""

Sizes = Mapping[str, int]
"""Maps the name of each object that owns data in a checkpoint to the size, in bytes, of that data."""


class Growing:
    """Tracks the sizes of the script's objects in the most recent checkpoints."""

    def __init__(self) -> None:
        self._last: list[Sizes] = []

    def noted(self, sizes: Sizes) -> Finding | None:
        """Record the sizes in another checkpoint. Return a finding if an object keeps growing."""
        self._last = [*self._last, sizes][-_IN_A_ROW:]
        return growth(self._last)


def growth(last: Sequence[Sizes]) -> Finding | None:
    """Find the object that grew the most in every recent checkpoint, or return None if none grew noticeably."""
    if len(last) < _IN_A_ROW:
        return None
    grown = {name: size - last[0].get(name, 0) for name, size in last[-1].items() if _grows(name, last)}
    name = max(grown, key=lambda each: grown[each], default="")
    if not name or grown[name] < _LEAST_BYTES:
        return None
    each = grown[name] // (len(last) - 1)
    return Finding(
        "memory-leak",
        "checkpoints",
        f"each is {as_size(each)} larger than the one before: {name} now contains {as_size(last[-1][name])}",
        "notice",
        {"bytes_per_checkpoint": each, "grows": {"what": "checkpoint", "name": name}},
        "Move anything that it no longer needs to a file",
    )


def _grows(name: str, last: Sequence[Sizes]) -> bool:
    sizes = [each.get(name, 0) for each in last]
    return all(before < after for before, after in pairwise(sizes))


def sizes_of(changes: Changes, arrays: Iterable[Array] = (), names: Mapping[str, Sequence[str]] | None = None) -> Sizes:
    """Return the total size, in bytes, of changed objects for each object that owns them, by the owner's name.

    Args:
        arrays: the other arrays in the checkpoint.
        names: maps a prefix of array names to owners; the number that follows the prefix is an index into them.
    """
    found: Counter[str] = Counter()
    for key, content in [*changes.changed.items(), *((key, made) for key, (_, made) in changes.new.items())]:
        found[_holder(key)] += changes.arrays[key].nbytes if key in changes.arrays else _weight(content)
    for under, known in (names or {}).items():
        for array in arrays:
            if array.name.startswith(under):
                found[known[int(array.name.removeprefix(under).partition("/")[0])]] += array.nbytes
    return found


def _holder(key: str) -> str:
    """Return the name of an item's owner: "callback Own.images" for the item "callback Own.images[7]"."""
    return key.partition("[")[0]


def _weight(content: Value) -> int:
    """Estimate the size of an object's content, in bytes."""
    if type(content) is tuple:
        return sum(map(_weight, content))
    return len(content) if type(content) in (bytes, str) else 8
