"""Saves and restores the position of a data iterator exactly if possible; otherwise, batches are skipped to reach it.

TensorFlow saves an iterator with everything in its buffers (shuffle, prefetch). Pipelines with a Python generator or
other state outside the graph cannot be saved. For these, the number of batches read is saved, and a resumed fit skips
that many.

Keras reads Grain data through `tf.data.Dataset.from_generator`, whose iterators TensorFlow cannot save. But Grain's own
iterators have `get_state` and `set_state`. The state is plain data, which Grain and the checkpoint store as JSON.
Reading JSON yields only numbers, text, lists and dicts. The state is only ever passed to the `set_state` of a new
iterator over the script's own data, and only if that iterator is of the class that reported the state and still reports
the same fields.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.workers import own_iterator
from oomph.protocol.reason_table import CACHE_FILE, EARLIER_SHUFFLE, NOT_TF_DATA, SHUFFLE_OVER
from oomph.protocol.reasons import Reason, because
from oomph.script.quiet import without_configuring_logging
from oomph.terminal.amounts import listed
from oomph.terminal.wrapping import shortened

_PREFIX = "iterator"
_OF_A_LIVE_SHUFFLE = b"end_of_input_sequence"
_OF_AN_ERROR = b"error_message"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE)
_NOISE = re.compile(r"\{\{[^}]*\}\} | \[Op:\w+\]| name: $|\.(?= \[Op:)")
"""The parts of TensorFlow's messages that refer to locations in its own code."""
_refused: WeakKeyDictionary[Any, Reason] = WeakKeyDictionary()
"""Maps datasets whose iterators cannot be saved to the reason, since TensorFlow prints warnings on every attempt."""
_FOR_GOOD = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError)
"""Errors that are due to a pipeline's structure, and are therefore permanent."""
_REFUSALS = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)


def save(iterator: Any, folder: Path) -> Reason | None:
    """Write the iterator's state to `folder`, or return the reason why it cannot be saved.

    Raises OSError instead of TensorFlow's error if the folder cannot be written to.
    """
    iterator = own_iterator(iterator)
    if not isinstance(iterator, tf.data.Iterator):
        return because("position-not-saved", why="not a tf.data iterator", kind=NOT_TF_DATA)
    dataset = TENSORFLOW.dataset_of_iterator.get(iterator)
    if dataset is not None and dataset in _refused:
        return _refused[dataset]
    try:
        with without_configuring_logging():
            tf.train.Checkpoint(iterator=iterator).write(str(folder / _PREFIX))
    except _REFUSALS as error:
        _remove(folder)
        why = _refusal(shortened(_NOISE.sub("", str(error.message).splitlines()[0]), 200), dataset)
        if dataset is not None and isinstance(error, _FOR_GOOD):
            _refused[dataset] = why
        return why
    except tf.errors.OpError as error:
        raise _of_the_disk(error) or error from error
    return None


def _refusal(said: str, dataset: Any) -> Reason:
    """Return TensorFlow's reason, but naming the script's calls rather than the single kernel in its message."""
    calls = datasets.drawn_calls(dataset, said.partition(" ")[0])
    if not calls:
        return because("position-not-saved", why=said)
    if len(calls) == 1:
        return because("position-not-saved", why=f"{calls[0]} is stateful", call=calls[0])
    why, also = f"{listed(calls)} are stateful", ", ".join(calls[1:])
    return because("position-not-saved", why=why, call=calls[0], also=also)


def is_caching(iterator: Any) -> Reason | None:
    """Return why an iterator must not be saved while it writes a cache file, or None if it doesn't write one.

    A new process starts the file over, so the saved state would be incomplete. Saving also starts another part of the
    cache, PREFIX_1. If such an iterator ends early, TensorFlow deletes every PREFIX_1*, including the script's files.
    """
    iterator = own_iterator(iterator)
    caches = isinstance(iterator, tf.data.Iterator) and datasets.writes_cache_file(
        TENSORFLOW.dataset_of_iterator.get(iterator)
    )
    return because("position-not-saved", why="a cache file is being written", kind=CACHE_FILE) if caches else None


def drop_unusable(iterator: Any, folder: Path) -> Reason | None:
    """Remove a saved state that contains an error or lacks the seeds of later epochs; return the reason, or None.

    A prefetching stage saves the error of a failed element along with its elements (`WriteStatus` in
    tensorflow/core/kernels/data/prefetch_dataset_op.cc). Once restored, the element fails again, even if the cause is
    gone.

    A shuffle that has emitted its last element does not save its state (`ShuffleDatasetOpBase` in
    tensorflow/core/kernels/data/shuffle_dataset_op.cc). With prefetching, it reaches that point some batches before the
    end of the epoch. If its output feeds another shuffle with a large buffer, as when first files and then their lines
    are shuffled, it does so at the start of the epoch. After a restore, the rest of the epoch is correct, but the next
    epoch repeats an earlier epoch's order. Skipping batches avoids this.
    """
    if _occurrences(folder, _OF_AN_ERROR):
        _remove(folder)
        return because("position-not-saved", why="an element that was read ahead failed")
    dataset = TENSORFLOW.dataset_of_iterator.get(own_iterator(iterator))
    shuffles = datasets.count_of_shuffles(dataset)
    if not shuffles or _occurrences(folder, _OF_A_LIVE_SHUFFLE) >= shuffles:
        return None
    _remove(folder)
    which, kind = ("the", SHUFFLE_OVER) if shuffles == 1 else ("a", EARLIER_SHUFFLE)
    over = because("position-not-saved", why=f"{which} shuffle of this epoch is over", kind=kind)
    return keeps_a_shuffle(dataset) or over


def keeps_a_shuffle(dataset: Any) -> Reason | None:
    """Return why iterators over a full cache cannot be saved, or None if the cache does not keep a shuffle's order."""
    why = "cache() keeps the order of a shuffle that is over"
    kept = datasets.caches_a_shuffle(dataset)
    return because("position-not-saved", why=why, kind=EARLIER_SHUFFLE) if kept else None


def _remove(folder: Path) -> None:
    for file in folder.glob(f"{_PREFIX}*"):
        file.unlink()


def _occurrences(folder: Path, key: bytes) -> int:
    """Count how often these bytes occur in the iterator's files, which are read in chunks since they may be large."""
    found = 0
    for file in folder.glob(f"{_PREFIX}*"):
        with file.open("rb") as opened:
            tail = b""
            while piece := opened.read(1 << 20):
                found += (tail + piece).count(key)
                tail = (tail + piece)[1 - len(key) :]
    return found


def _of_the_disk(error: Any) -> OSError | None:
    """Return the OSError behind a TensorFlow error: the message of a failed write ends with the text from strerror."""
    for code in _DISK:
        if os.strerror(code) in str(error.message):
            return OSError(code, os.strerror(code))
    return None


def is_saved(folder: Path) -> bool:
    """True if a checkpoint folder contains an iterator."""
    return (folder / f"{_PREFIX}.index").is_file()


def restore(iterator: Any, folder: Path) -> None:
    """Restore a saved state into an iterator over the same pipeline."""
    tf.train.Checkpoint(iterator=own_iterator(iterator)).read(str(folder / _PREFIX)).assert_consumed()


def is_one_pass(data: Any) -> bool:
    """True if the data can be iterated over only once, like a generator."""
    return hasattr(type(data), "__next__")


def depends_on_python(epochs: Any) -> bool:
    """True if a Keras epoch iterator's batches come from Python or depend on variables.

    This is the case for a generator, a PyDataset, and a `tf.data` pipeline that calls Python or reads a variable.
    """
    if type(epochs.data_adapter).__name__ in ("GeneratorDataAdapter", "PyDatasetAdapter"):
        return True
    return datasets.depends_on_python(KERAS.distributed_dataset.of(epochs))


Told = dict[str, Any]
"""A reported position as JSON: the iterator's class and state."""
_ADAPTER = "GrainDatasetAdapter"
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_LONGEST = 1 << 20
_MOST_AHEAD = 512
_SECONDS, _SHARE = 0.1, 0.01
"""The limit on the time for reporting positions: this many seconds, plus this share of training time."""


def tells_position(iterator: Any) -> bool:
    """True if an iterator is a Grain iterator that reports its position."""
    kinds = type(iterator).__mro__
    return any(kind.__module__.partition(".")[0] == "grain" for kind in kinds) and all(
        callable(getattr(type(iterator), name, None)) for name in ("get_state", "set_state")
    )


def position_of(iterator: Any) -> Told | None:
    """Return the position that an iterator reports, or None if JSON cannot represent it."""
    if not tells_position(iterator):
        return None
    try:
        state = iterator.get_state()
        plain = _read(state) if type(state) is bytes else state
        text = json.dumps(plain, allow_nan=False)
        is_whole = len(text) <= _LONGEST and json.loads(text) == plain
    except Exception:  # may come from Grain or the user's code
        return None
    return {"class": _name_of(iterator), "bytes": type(state) is bytes, "state": plain} if is_whole else None


def go_to(iterator: Any, told: Any) -> bool:
    """Move a new iterator to a reported position; return False if that fails, which leaves the iterator unusable."""
    now = position_of(iterator)
    if now is None or not isinstance(told, dict) or not _is_like(now, told) or now["class"] != told["class"]:
        return False
    state = _of_this_process(told["state"], now["state"])
    try:
        iterator.set_state(json.dumps(state).encode() if told["bytes"] else state)
    except Exception:  # from Grain, for a position that the data does not have
        return False
    return position_of(iterator) == {**told, "state": state}


class TellingData:
    """Tracks the iterators that TensorFlow creates over Grain data, and the positions that they report.

    Args:
        dataset: the `tf.data.Dataset` that Keras builds from these iterators.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._current: _Counted | None = None
        self._next: _Counted | None = None
        self._make: Callable[[], Any] | None = None
        states = list(_generator_states(dataset))
        if len(states) == 1:
            self._make = TENSORFLOW.generator.of(states[0])
            TENSORFLOW.generator.put(states[0], self._begin)

    def _begin(self) -> Any:
        assert self._make is not None
        self._current, self._next = self._next or _Counted(iter(self._make())), None
        return self._current

    def position(self, taken: int) -> Told | None:
        """Return the position in the data after `taken` batches of this epoch, or None if unknown."""
        if taken == 0:
            fresh = self._fresh()
            return None if fresh is None else position_of(fresh)
        return None if self._current is None else self._current.position(taken)

    def go_to(self, told: Any, taken: int) -> bool:
        """Start the next epoch at a reported position; return False if that is impossible."""
        fresh = self._fresh()
        if fresh is None or not go_to(fresh, told):
            return False
        self._next = _Counted(fresh, taken)
        return True

    def _fresh(self) -> Any:
        """Create a new iterator over the data, or return None if that fails."""
        try:
            return None if self._make is None else iter(self._make())
        except Exception:  # an error in the user's data, which will be raised in the epoch as well
            return None


class _Counted:
    """An iterator that records its position after each batch, since TensorFlow reads ahead of training."""

    def __init__(self, inner: Iterator[Any], given: int = 0) -> None:
        self._inner, self._given = inner, given
        self._noted: deque[tuple[int, Told]] = deque(maxlen=_MOST_AHEAD)
        self._began, self._spent = time.monotonic(), 0.0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        item = next(self._inner)
        self._given += 1
        self._note()
        return item

    def _note(self) -> None:
        began = time.monotonic()
        if self._spent > _SECONDS + _SHARE * (began - self._began):
            self._noted.clear()  # too expensive: after a fault, the batches are replayed instead
            return
        told = position_of(self._inner)
        if told is not None:
            self._noted.append((self._given, told))
        self._spent += time.monotonic() - began

    def position(self, taken: int) -> Told | None:
        """Return the position after `taken` batches, or None if unknown."""
        return dict(self._noted.copy()).get(taken)


def telling(epochs: Any) -> TellingData | None:
    """Return a Keras epoch iterator's data if it comes from Grain, which reports positions, or None otherwise."""
    if type(getattr(epochs, "data_adapter", None)).__name__ != _ADAPTER:
        return None
    return TellingData(KERAS.distributed_dataset.of(epochs))


def _of_this_process(state: Any, now: Any) -> Any:
    """Replace the object addresses in a state's `repr`s, which a DataLoader reports, with those in this process."""
    if not isinstance(state, dict) or not isinstance(now, dict):
        return state
    return {name: now[name] if _is_same_text(value, now[name]) else value for name, value in state.items()}


def _is_same_text(one: Any, other: Any) -> bool:
    both = [_ADDRESS.sub("", each) for each in (one, other) if isinstance(each, str)]
    return len(both) == 2 and both[0] == both[1]


def _read(state: bytes) -> Any:
    return json.loads(state.decode())


def _name_of(iterator: Any) -> str:
    return f"{type(iterator).__module__}.{type(iterator).__qualname__}"


def _is_like(one: Any, other: Any) -> bool:
    """True if two states have the same fields with the same types."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_like(one[name], other[name]) for name in one)
    return one is None or other is None or type(one) is type(other)


def _generator_states(dataset: Any) -> Iterator[Any]:
    """Yield the objects in which `from_generator` keeps the Python generators that a dataset reads from."""
    seen: set[int] = set()
    for each in datasets.datasets_in(dataset):
        for wrapper in TENSORFLOW.dataset_functions.call(each):
            yield from _states_in(TENSORFLOW.structured_function.get(wrapper), seen)


def _states_in(function: Any, seen: set[int]) -> Iterator[Any]:
    if type(function) is not FunctionType or id(function) in seen:
        return
    seen.add(id(function))
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue  # the variable has not been assigned yet
        if type(content).__name__ in TENSORFLOW.generator_state.names:
            if id(content) not in seen:
                seen.add(id(content))
                yield content
        else:
            yield from _states_in(content, seen)
