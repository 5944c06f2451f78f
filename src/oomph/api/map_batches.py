"""map_batches: applies a function to all samples, batch by batch, with smaller calls if a batch does not fit."""

from __future__ import annotations

import gc
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsIndex, TypeVar

from oomph.exact_step.step.out_of_memory import Failed, SizeSearch
from oomph.journal.events import Oom, Recovered
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.samples import in_batches
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory
from oomph.script import session

_Result = TypeVar("_Result")


def map_batches(fn: Callable[[Any], _Result], dataset: Any, batch_size: SupportsIndex) -> Iterator[_Result]:
    """Apply `fn` to the samples in `dataset` in batches, or in smaller calls if a batch does not fit in memory.

    Yields the return value of each call, in the order of the samples. Each sample counts exactly once: a call that runs
    out of memory does not yield anything, and its samples are retried in smaller calls; completed calls are not
    repeated. A size that fits is kept, and a size that failed is not tried again. As long as memory suffices, the calls
    are the same as in a loop over `dataset.batch(batch_size)`. Nothing runs until the first result is requested.

        predictions = np.concatenate(list(oomph.map_batches(lambda x: model(x).numpy(), images, 256)))

    Results that stay on the device leave less memory for later calls, hence the `.numpy()`.

    Args:
        fn: a function that is called with a batch, which has the structure of the elements, as tensors on the host. It
            may return anything, and must accept 1 to `batch_size` samples. If it runs out of memory, it is called again
            for the same samples, so it must not have had any effects by then, such as changing weights.
        dataset: a tf.data.Dataset, list, generator or other iterable of single elements; or an array or tensor, or a
            tuple or dict of them with the same first dimension. It is read once, `batch_size` samples at a time.
        batch_size: the maximum number of samples per call.

    Raises:
        TypeError, ValueError: immediately, if an argument is invalid.
        Exception: any error from `fn` or `dataset`, unchanged; out of memory only if a single sample does not fit.
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
    """Calls `fn`, and keeps track of which sizes fit in memory."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn
        self._search = SizeSearch()
        self._before = 0
        """The number of samples in the completed batches."""

    def on(self, batch: Any) -> Iterator[Any]:
        """Yield the results for one batch, each one as soon as it is available."""
        size, done, failures = _size(batch), 0, _Failures()
        while done < size:
            part, started = min(self._search.known.micro_batch(size), size - done), time.monotonic()
            outcome = self._search.run(part, partial(self._call, batch, done, part))
            if isinstance(outcome, Failed):
                seconds = time.monotonic() - started
                failures.note(outcome.oom, self._before + done, part, seconds)
                if part == 1:
                    raise outcome.error
                failed = replace(outcome, error=MemoryError())  # release the objects that its causes keep alive
                del outcome
                gc.collect()  # cycles may keep the failed call's objects alive
                self._search.learn(failed, part, seconds)
                continue
            done += part
            if done == size:
                failures.note_recovered(size, self._search.known.micro_batch(size))
            yield outcome
            del outcome  # the caller may have released it, and the next call needs the memory
        self._before += size

    def _call(self, batch: Any, start: int, part: int) -> Any:
        """Call `fn` with a slice of the batch."""
        return self._fn(batches.part_of(batch, start, start + part))


@dataclass
class _Failures:
    """Reports the failed calls for one batch to stderr and to the run's journal."""

    ooms: int = 0
    seconds: float = 0.0

    def note(self, oom: DeviceOutOfMemory, first: int, part: int, seconds: float) -> None:
        """Report that a call with `part` samples, starting at sample `first`, ran out of memory."""
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
        """Report that a batch has recovered, if any of its calls failed."""
        if self.ooms:
            session.note(Recovered(batch=batch, piece=piece, ooms=self.ooms, seconds=round(self.seconds, 3)))
            session.say(
                f"recovered in {self.seconds:.1f} s: map_batches continues with up to {piece} elements at a time"
            )


def _size(batch: Any) -> int:
    size = batches.size_of(batch)
    if size is None:
        raise ValueError("the parts of a batch from dataset have different numbers of samples")
    return size
