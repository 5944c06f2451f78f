"""Reads a bounded sample of batches in the order in which fit would read them, and reports progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.preflight.facts.data import ENDLESS
from oomph.preflight.live.statistics import Totals

_ROLES = ("x", "y", "sample_weight")
Array = np.ndarray[Any, Any]
_MOST_SHAPES, _DIGESTS = 1000, 20


class Leaf(NamedTuple):
    """One part of an element."""

    role: str
    name: str
    """The part's name in the user's code: "x['age']"."""
    key: str = ""
    """The part's key in a dictionary; empty if it has none."""


def leaves_of(element: Any) -> Iterator[tuple[Leaf, Any]]:
    """Yield the parts of an element. As in fit, a tuple is (x, y, sample_weight); anything else is x."""
    values = element if isinstance(element, tuple) and 1 <= len(element) <= len(_ROLES) else (element,)
    for role, value in zip(_ROLES, values, strict=False):
        yield from named(role, value)


def named(role: str, value: Any) -> Iterator[tuple[Leaf, Any]]:
    """Yield the parts of x, y or the sample weights."""
    yield from _parts(role, role, "", value)


def _parts(role: str, name: str, key: str, value: Any) -> Iterator[tuple[Leaf, Any]]:
    if value is None:
        return
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _parts(role, f"{name}[{inner!r}]", str(inner), each)
    elif isinstance(value, tuple) or (isinstance(value, list) and not _is_array(value)):
        for index, each in enumerate(value):
            yield from _parts(role, f"{name}[{index}]" if len(value) > 1 else name, "", each)
    else:
        yield Leaf(role, name, key), value


def _is_array(value: list[Any]) -> bool:
    """True if a list contains numbers instead of tensors, so that Keras treats it as one array."""
    return not any(tf.is_tensor(each) or hasattr(each, "shape") or isinstance(each, Mapping) for each in value)


@dataclass(frozen=True)
class Limits:
    """Limits on how much is kept; reading stops at whichever limit is reached first."""

    seconds: float = 2.0
    size: int = 64 << 20
    """The maximum number of bytes to keep, over all parts."""
    batches: int = 2000
    samples: int = 50_000
    epoch: int | None = None
    """The number of batches per epoch, as set by the user; endless data is not read past the first epoch."""
    reads_on: bool = False
    """True to read the rest as well, without a time limit, for statistics that do not require keeping the data."""

    def of_an_epoch(self) -> Limits:
        """Return these limits, adapted to data that may be endless."""
        epoch = self.epoch or USUAL.batches
        return replace(self, reads_on=False, seconds=inf, batches=epoch) if self.reads_on else self

    def are_reached(self, found: Read, size: int) -> bool:
        """True if enough data has been kept."""
        in_time = self.reads_on or found.seconds <= self.seconds
        return not in_time or size > self.size or found.batches >= self.batches or found.rows >= self.samples


USUAL = Limits()
FULL = Limits(size=512 << 20, batches=1 << 60, samples=1_000_000, reads_on=True)
"""Limits that allow all of the data to be read; only a bounded part is kept."""


@dataclass
class Read:
    """Facts about the data that was read, and the part of it that was kept."""

    batches: int = 0
    rows: int = 0
    is_whole: bool = False
    """True if the data ran out before any limit was reached."""
    digests: list[int] = field(default_factory=list)
    """A hash of each of the first batches."""
    empty: int | None = None
    """The index of the first empty batch."""
    failed: str = ""
    arrays: dict[Leaf, list[Array]] = field(default_factory=dict)
    totals: dict[Leaf, Totals] = field(default_factory=dict)
    """Statistics of all data read, if that is more than the sample."""
    shapes: dict[Leaf, set[tuple[int, ...]]] = field(default_factory=dict)
    first: Any = None
    """The first batch, unchanged."""
    seconds: float = 0.0

    def joined(self) -> dict[Leaf, Array]:
        """Return one array per part, with all batches concatenated; they are flattened if their shapes differ."""
        return {leaf: _joined(arrays) for leaf, arrays in self.arrays.items() if arrays}


def read(
    batches: Iterable[Any], limits: Limits, is_batched: bool = True, tell: Callable[[int], None] = lambda batches: None
) -> Read:
    """Read batches until a limit is reached or the data runs out.

    Args:
        batches: the batches that fit would iterate over: x, (x, y) or (x, y, sample_weight) in any structure.
        limits: how much to read.
        is_batched: True if the first dimension counts samples, False if each element is a single sample.
        tell: called with the number of batches read so far.
    """
    found, began, size = Read(), time.monotonic(), 0
    for batch in _without_raising(batches, found):
        keeps = not limits.are_reached(found, size)
        if found.first is None:
            found.first = batch
        rows = 0
        for leaf, value in leaves_of(batch):
            array = as_array(value)
            if array is None:
                continue
            if not is_batched:
                array = array[np.newaxis]
            size += _take(found, leaf, array, limits, keeps)
            rows = rows or (int(array.shape[0]) if array.ndim else 1)
        if len(found.digests) < _DIGESTS:
            found.digests.append(hash(tuple(arrays[-1].tobytes() for arrays in found.arrays.values())))
        if is_batched and not rows and found.empty is None:
            found.empty = found.batches
        found.batches += 1
        found.rows += rows
        found.seconds = time.monotonic() - began
        tell(found.batches)
        if not limits.reads_on and limits.are_reached(found, size):
            return found
    found.is_whole = not found.failed
    return found


def _take(found: Read, leaf: Leaf, array: Array, limits: Limits, keeps: bool) -> int:
    """Record one part of a batch and return the number of bytes kept."""
    shapes = found.shapes.setdefault(leaf, set())
    if len(shapes) < _MOST_SHAPES:
        shapes.add(tuple(array.shape))
    if limits.reads_on:
        found.totals.setdefault(leaf, Totals()).add(array)
    if keeps:
        found.arrays.setdefault(leaf, []).append(array)
    return array.nbytes if keeps else 0


def as_array(value: Any) -> Array | None:
    """Return a tensor's values as a dense array, flattened if the tensor is ragged, or None if it has no values."""
    if isinstance(value, tf.RaggedTensor):
        value = value.flat_values
    elif isinstance(value, tf.SparseTensor):
        value = value.values
    try:
        array: Array = np.asarray(value)
    except Exception:  # a user's batch may contain anything
        return None
    if array.dtype.kind == "V" or str(array.dtype) == "bfloat16":
        array = array.astype(np.float32)
    elif array.dtype == object and not array.ndim and not isinstance(array.item(), (str, bytes)):
        return None  # an object that NumPy cannot inspect, such as a SciPy sparse matrix
    elif array.dtype == object:
        array = array.astype(str)
    return array


def _without_raising(batches: Iterable[Any], found: Read) -> Iterator[Any]:
    try:
        for batch in batches:  # noqa: UP028 - `yield from` would close the user's generator
            yield batch
    except Exception as error:  # the user's data may raise anything
        found.failed = f"{type(error).__name__}: {error}"


def _joined(arrays: list[Array]) -> Array:
    if len({array.shape[1:] for array in arrays}) == 1 and arrays[0].ndim:
        joined: Array = np.concatenate(arrays)
        return joined
    flat: Array = np.concatenate([array.reshape(-1) for array in arrays])
    return flat


_EVERY_SECONDS = 0.5


class ReadingProgress:
    """Reports how many batches have been read, at most twice per second.

    Args:
        batches: the total number of batches; None or ENDLESS if unknown.
        tell: shows the text to the user.
    """

    def __init__(self, batches: int | None, tell: Callable[[str], None]) -> None:
        self._batches = None if batches == ENDLESS else batches
        self._tell = tell
        self._began = time.monotonic()
        self._due = self._began + _EVERY_SECONDS

    def __call__(self, read: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _EVERY_SECONDS
            self._tell(in_words(read, self._batches, now - self._began))


def in_words(read: int, batches: int | None, seconds: float) -> str:
    """Format the progress: "reading the data: 340 of 2,000 batches (17%), about 12 s left".

    Args:
        read: the number of batches read so far.
        batches: the total number of batches; None if unknown.
        seconds: the elapsed time.
    """
    if batches is None or batches < read:
        return f"reading the data: {read:,} batches"
    left = seconds / max(read, 1) * (batches - read)
    return f"reading the data: {read:,} of {batches:,} batches ({read / batches:.0%}), about {left:.0f} s left"
