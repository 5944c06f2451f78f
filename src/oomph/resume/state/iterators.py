"""The position of a data iterator: saved and restored exactly if possible, otherwise reached by skipping.

TensorFlow saves an iterator with everything in its buffers (shuffle, prefetch). Pipelines with a Python generator or
other state outside the graph cannot be saved. For these, the number of batches taken is saved, and a resumed fit skips
that many.

Keras reads the data of Grain through `tf.data.Dataset.from_generator`, whose iterators TensorFlow cannot save. Grain's
own iterators have `get_state` and `set_state`. The state is plain data, which Grain and the checkpoint keep as JSON. It
is read as JSON, which yields only numbers, text, lists and dicts, and is passed only to the `set_state` of a new
iterator from the script's own data, if that has the class that reported it and now reports the same fields.
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
"""The parts of TensorFlow's messages that locate its own code."""
_refused: WeakKeyDictionary[Any, Reason] = WeakKeyDictionary()
"""Datasets whose iterators cannot be saved, and the reasons. TensorFlow prints its own warnings on each try."""
_FOR_GOOD = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError)
"""Errors about the structure of a pipeline."""
_REFUSALS = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)


def save(iterator: Any, folder: Path) -> Reason | None:
    """Write the iterator's state into `folder`; return the reason if it cannot be saved.

    Raises OSError in place of TensorFlow's error if the folder cannot be written.
    """
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
    """Return TensorFlow's reason, naming the script's calls instead of the one kernel that TensorFlow names."""
    calls = datasets.drawn_calls(dataset, said.partition(" ")[0])
    if not calls:
        return because("position-not-saved", why=said)
    if len(calls) == 1:
        return because("position-not-saved", why=f"{calls[0]} is stateful", call=calls[0])
    why, also = f"{listed(calls)} are stateful", ", ".join(calls[1:])
    return because("position-not-saved", why=why, call=calls[0], also=also)


def is_caching(iterator: Any) -> Reason | None:
    """Return why an iterator that writes a cache file must not be saved now; None if it writes none.

    A new process starts the file over, so its state would be incomplete. Saving it also begins another part of the
    cache, PREFIX_1; TensorFlow deletes every PREFIX_1* when such an iterator ends early, including files of the script.
    """
    caches = isinstance(iterator, tf.data.Iterator) and datasets.writes_cache_file(
        TENSORFLOW.dataset_of_iterator.get(iterator)
    )
    return because("position-not-saved", why="a cache file is being written", kind=CACHE_FILE) if caches else None


def drop_unusable(iterator: Any, folder: Path) -> Reason | None:
    """Remove a saved state that contains an error or lacks later epochs' seeds; return why, or None.

    A read-ahead stage saves a failed element's error with the others (`WriteStatus` in
    tensorflow/core/kernels/data/prefetch_dataset_op.cc). Once restored, it fails again, though its cause may be gone.

    A shuffle that has emitted its last element saves nothing (`ShuffleDatasetOpBase` in
    tensorflow/core/kernels/data/shuffle_dataset_op.cc). With prefetching, that happens some batches before the end of
    the epoch, and, below another shuffle with a large buffer, at the beginning of the epoch, as when the files and then
    their lines are shuffled. After a restore, the rest of the epoch is correct, but the next epoch is shuffled like an
    earlier one. Skipping avoids this.
    """
    if _occurrences(folder, _OF_AN_ERROR):
        _remove(folder)
        return because("position-not-saved", why="an element that was read ahead has failed")
    dataset = TENSORFLOW.dataset_of_iterator.get(iterator)
    shuffles = datasets.count_of_shuffles(dataset)
    if not shuffles or _occurrences(folder, _OF_A_LIVE_SHUFFLE) >= shuffles:
        return None
    _remove(folder)
    which, kind = ("the", SHUFFLE_OVER) if shuffles == 1 else ("a", EARLIER_SHUFFLE)
    over = because("position-not-saved", why=f"{which} shuffle of this epoch is over", kind=kind)
    return keeps_a_shuffle(dataset) or over


def keeps_a_shuffle(dataset: Any) -> Reason | None:
    """Return why iterators over a full cache cannot be saved; None if the cache does not keep a shuffle's order."""
    why = "cache() keeps the order of a shuffle that is over"
    kept = datasets.caches_a_shuffle(dataset)
    return because("position-not-saved", why=why, kind=EARLIER_SHUFFLE) if kept else None


def _remove(folder: Path) -> None:
    for file in folder.glob(f"{_PREFIX}*"):
        file.unlink()


def _occurrences(folder: Path, key: bytes) -> int:
    """Count the occurrences of these bytes in the iterator's files, reading in chunks since they may be large."""
    found = 0
    for file in folder.glob(f"{_PREFIX}*"):
        with file.open("rb") as opened:
            tail = b""
            while piece := opened.read(1 << 20):
                found += (tail + piece).count(key)
                tail = (tail + piece)[1 - len(key) :]
    return found


def _of_the_disk(error: Any) -> OSError | None:
    """Return the OSError behind a TensorFlow error, since the message of a failed write ends with strerror's text."""
    for code in _DISK:
        if os.strerror(code) in str(error.message):
            return OSError(code, os.strerror(code))
    return None


def is_saved(folder: Path) -> bool:
    """True if a checkpoint folder contains an iterator."""
    return (folder / f"{_PREFIX}.index").is_file()


def restore(iterator: Any, folder: Path) -> None:
    """Restore the saved state of an iterator into an iterator of the same pipeline."""
    tf.train.Checkpoint(iterator=iterator).read(str(folder / _PREFIX)).assert_consumed()


def is_one_pass(data: Any) -> bool:
    """True if data can be iterated only once, like a generator."""
    return hasattr(type(data), "__next__")


def depends_on_python(epochs: Any) -> bool:
    """True if the batches of a Keras epoch iterator come from Python, or depend on variables.

    True for a generator, a PyDataset, and a `tf.data` pipeline that calls Python or reads a variable.
    """
    if type(epochs.data_adapter).__name__ in ("GeneratorDataAdapter", "PyDatasetAdapter"):
        return True
    return datasets.depends_on_python(KERAS.distributed_dataset.of(epochs))


Told = dict[str, Any]
"""A position as JSON: the class of the iterator, and its state."""
_ADAPTER = "GrainDatasetAdapter"
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_LONGEST = 1 << 20
_MOST_AHEAD = 512
_SECONDS, _SHARE = 0.1, 0.01
"""Limits on the time for reporting positions: this many seconds, plus this share of the training time."""


def tells_position(iterator: Any) -> bool:
    """True if an iterator is a Grain iterator that reports its position."""
    kinds = type(iterator).__mro__
    return any(kind.__module__.partition(".")[0] == "grain" for kind in kinds) and all(
        callable(getattr(type(iterator), name, None)) for name in ("get_state", "set_state")
    )


def position_of(iterator: Any) -> Told | None:
    """Return the position that an iterator reports; None if JSON cannot represent it."""
    if not tells_position(iterator):
        return None
    try:
        state = iterator.get_state()
        plain = _read(state) if type(state) is bytes else state
        text = json.dumps(plain, allow_nan=False)
        is_whole = len(text) <= _LONGEST and json.loads(text) == plain
    except Exception:  # Grain's own, and the user's
        return None
    return {"class": _name_of(iterator), "bytes": type(state) is bytes, "state": plain} if is_whole else None


def go_to(iterator: Any, told: Any) -> bool:
    """Move a new iterator to a reported position; return False if that fails and spoils the iterator."""
    now = position_of(iterator)
    if now is None or not isinstance(told, dict) or not _is_like(now, told) or now["class"] != told["class"]:
        return False
    state = _of_this_process(told["state"], now["state"])
    try:
        iterator.set_state(json.dumps(state).encode() if told["bytes"] else state)
    except Exception:  # Grain's own, of a position that its data do not have
        return False
    return position_of(iterator) == {**told, "state": state}


class TellingData:
    """The iterators that TensorFlow gets from Grain data.

    Args:
        dataset: the `tf.data.Dataset` that Keras builds from them.
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
        """Return the position of the data after `taken` batches of this epoch; None if unknown."""
        if taken == 0:
            fresh = self._fresh()
            return None if fresh is None else position_of(fresh)
        return None if self._current is None else self._current.position(taken)

    def go_to(self, told: Any, taken: int) -> bool:
        """Begin the next epoch at a reported position; return False if that is impossible."""
        fresh = self._fresh()
        if fresh is None or not go_to(fresh, told):
            return False
        self._next = _Counted(fresh, taken)
        return True

    def _fresh(self) -> Any:
        """Create a new iterator over the data; None if that fails."""
        try:
            return None if self._make is None else iter(self._make())
        except Exception:  # the user's data; the epoch will raise it
            return None


class _Counted:
    """An iterator that notes its position after each batch: TensorFlow reads ahead of the training."""

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
            self._noted.clear()  # too dear: the batches are read again after a fault
            return
        told = position_of(self._inner)
        if told is not None:
            self._noted.append((self._given, told))
        self._spent += time.monotonic() - began

    def position(self, taken: int) -> Told | None:
        """Return the position after `taken` batches; None if unknown."""
        return dict(self._noted.copy()).get(taken)


def telling(epochs: Any) -> TellingData | None:
    """Return the position-reporting data of a Keras epoch iterator; None if it is not from Grain."""
    if type(getattr(epochs, "data_adapter", None)).__name__ != _ADAPTER:
        return None
    return TellingData(KERAS.distributed_dataset.of(epochs))


def _of_this_process(state: Any, now: Any) -> Any:
    """Return the state with this process's object addresses in its `repr`s, which a DataLoader reports."""
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
    """True if two states have the same fields, of the same types."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_like(one[name], other[name]) for name in one)
    return one is None or other is None or type(one) is type(other)


def _generator_states(dataset: Any) -> Iterator[Any]:
    """Yield the objects in which `from_generator` keeps the Python generators that a dataset reads."""
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
            continue  # not assigned yet
        if type(content).__name__ in TENSORFLOW.generator_state.names:
            if id(content) not in seen:
                seen.add(id(content))
                yield content
        else:
            yield from _states_in(content, seen)
