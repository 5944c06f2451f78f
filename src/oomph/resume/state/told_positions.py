"""The positions of Grain's iterators in their data, which they can report and restore.

Keras reads the data of Grain through `tf.data.Dataset.from_generator`, whose iterators TensorFlow cannot save. Grain's
own iterators have `get_state` and `set_state`. The state is plain data, which Grain and the checkpoint keep as JSON.
It is read as JSON, which makes numbers, text, lists and dicts only, and passed only to the `set_state` of a new
iterator from the script's own data, if that has the class that reported it and now reports the same fields.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets

Told = dict[str, Any]
"""A position as JSON: the class of the iterator, and its state."""
_ADAPTER = "GrainDatasetAdapter"
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_LONGEST = 1 << 20
_MOST_AHEAD = 512
_SECONDS, _SHARE = 0.1, 0.01
"""Limits of the time that reporting positions may take: these seconds, plus this share of the training time."""


def tells(iterator: Any) -> bool:
    """True for a Grain iterator that reports its position."""
    kinds = type(iterator).__mro__
    return any(kind.__module__.partition(".")[0] == "grain" for kind in kinds) and all(
        callable(getattr(type(iterator), name, None)) for name in ("get_state", "set_state")
    )


def position_of(iterator: Any) -> Told | None:
    """The position that an iterator reports; None if JSON cannot hold it."""
    if not tells(iterator):
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
    """Move a new iterator to a reported position; False if that fails and the iterator is spoiled."""
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
        dataset: the `tf.data.Dataset` that Keras makes of them.
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
        """The position of the data after `taken` batches of this epoch; None if unknown."""
        if taken == 0:
            fresh = self._fresh()
            return None if fresh is None else position_of(fresh)
        return None if self._current is None else self._current.position(taken)

    def go_to(self, told: Any, taken: int) -> bool:
        """Begin the next epoch at a reported position; False if that is impossible."""
        fresh = self._fresh()
        if fresh is None or not go_to(fresh, told):
            return False
        self._next = _Counted(fresh, taken)
        return True

    def _fresh(self) -> Any:
        """A new iterator over the data; None if that fails."""
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
        """The position after `taken` batches; None if unknown."""
        return dict(self._noted.copy()).get(taken)


def telling(epochs: Any) -> TellingData | None:
    """The position-reporting data of a Keras epoch iterator; None if not from Grain."""
    if type(getattr(epochs, "data_adapter", None)).__name__ != _ADAPTER:
        return None
    return TellingData(KERAS.distributed_dataset.of(epochs))


def _of_this_process(state: Any, now: Any) -> Any:
    """The state with this process's object addresses in its `repr`s, which a DataLoader reports."""
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
