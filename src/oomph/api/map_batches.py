"""map_batches: applies a function to all samples, batch by batch, in smaller calls if a batch does not fit."""

from __future__ import annotations

import gc
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsIndex

from oomph.exact_step.step.out_of_memory import Failed, SizeSearch
from oomph.journal.events import Oom, Recovered
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.samples import in_batches
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory
from oomph.script import session


def map_batches(fn: Callable[[Any], Any], dataset: Any, batch_size: SupportsIndex) -> Iterator[Any]:
    """Apply `fn` to the samples of `dataset` in batches, or in smaller calls if a batch does not fit in memory.

    Yields what `fn` returns, call by call, in the order of the samples. Each sample counts exactly once: a call that
    runs out of memory yields nothing, its samples are retried in smaller calls, and completed calls are not repeated.
    The size that fits is kept; a size that failed is not tried again. Without an out-of-memory error the calls are the
    same as in a loop over `dataset.batch(batch_size)`. Nothing runs before the first result is requested.

        predictions = np.concatenate(list(oomph.map_batches(lambda x: model(x).numpy(), images, 256)))

    Results that stay on the device leave less memory for later calls, hence the `.numpy()`.

    Args:
        fn: called with a batch, with the structure of the elements, as tensors on the host; returns anything. It must
            accept 1 to `batch_size` samples. It must have no effect (no weights changed, nothing written) before it can
            run out of memory, since it is then called again for the same samples.
        dataset: read once, `batch_size` samples at a time: a tf.data.Dataset of single elements; an array or tensor, or
            a tuple or dict of them with the same first dimension; a list, generator or other iterable of elements.
        batch_size: the most samples in one call.

    Raises:
        TypeError, ValueError: at once, if an argument is invalid.
        Exception: whatever `fn` or `dataset` raises, unchanged; out of memory only if a single sample does not fit.
    """
    if not callable(fn):
        raise TypeError(f"fn must be callable, not {type(fn).__name__}")
    size = _checked(batch_size)
    return _results(_Calls(fn), in_batches(dataset, size))


def _checked(batch_size: SupportsIndex) -> int:
    try:
        size = operator.index(batch_size)
    except TypeError:
        size = None
    if size is None or isinstance(batch_size, bool):
        raise TypeError(f"batch_size must be an integer, not {type(batch_size).__name__}")
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, not {size}")
    return size


def _results(calls: _Calls, whole_batches: Iterator[Any]) -> Iterator[Any]:
    for batch in whole_batches:
        yield from calls.on(batch)


class _Calls:
    """The calls of `fn`, and what they have revealed about their memory."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn
        self._search = SizeSearch()
        self._before = 0
        """The number of samples in the completed batches."""

    def on(self, batch: Any) -> Iterator[Any]:
        """Yield the results for one batch, each as soon as it is available."""
        size, done, failures = _size(batch), 0, _Failures()
        while done < size:
            part, started = min(self._search.known.micro_batch(size), size - done), time.monotonic()
            outcome = self._search.run(part, partial(self._call, batch, done, part))
            if isinstance(outcome, Failed):
                seconds = time.monotonic() - started
                failures.note(outcome.oom, self._before + done, part, seconds)
                if part == 1:
                    raise outcome.error
                failed = replace(outcome, error=MemoryError())  # release what its causes and their frames hold
                del outcome
                gc.collect()  # cycles may keep alive what the failed call held
                self._search.learn(failed, part, seconds)
                continue
            done += part
            if done == size:
                failures.note_recovered(size, self._search.known.micro_batch(size))
            yield outcome
            del outcome  # the caller may have released it, and the next call needs the memory
        self._before += size

    def _call(self, batch: Any, start: int, part: int) -> Any:
        """Return the result of `fn` for a slice of the batch."""
        return self._fn(batches.part_of(batch, start, start + part))


@dataclass
class _Failures:
    """The failed calls for one batch, reported on stderr and in the journal of a run."""

    ooms: int = 0
    seconds: float = 0.0

    def note(self, oom: DeviceOutOfMemory, first: int, part: int, seconds: float) -> None:
        """Record that a call for `part` samples from `first` ran out of memory."""
        self.ooms, self.seconds = self.ooms + 1, self.seconds + seconds
        session.note(
            Oom(phase="map_batches", first=first, piece=part,
            message=oom.line, requested_bytes=oom.requested_bytes, seconds=round(seconds, 3),
        ))  # fmt: skip
        if part == 1:
            session.say(f"out of memory in map_batches with element {first} alone, which cannot be split")
        else:
            where = f"{part} elements, {first} to {first + part - 1}"
            session.say(f"out of memory in map_batches with {where}; retrying the same elements in smaller calls")

    def note_recovered(self, batch: int, piece: int) -> None:
        """Report the recovery of a completed batch, if any of its calls failed."""
        if self.ooms:
            session.note(Recovered(batch=batch, piece=piece, ooms=self.ooms, seconds=round(self.seconds, 3)))
            session.say(
                f"recovered in {self.seconds:.1f} s: map_batches continues with up to {piece} elements at a time"
            )


def _size(batch: Any) -> int:
    size = batches.size_of(batch)
    if size is None:
        raise ValueError("the parts of a batch of dataset have different numbers of samples")
    return size
