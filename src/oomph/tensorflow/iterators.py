"""Where a tf.data iterator stands: saved and restored exactly when it can be, otherwise skipped to.

TensorFlow saves an iterator with everything in its buffers (shuffle, prefetch). Pipelines with a Python generator or
other state outside the graph refuse; for those the number of batches taken is kept, and a resumed fit takes that many
again.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

_PREFIX = "iterator"
_OF_A_LIVE_SHUFFLE = b"end_of_input_sequence"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE)
_TELL_SECONDS = 2.0
_REFUSALS = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)


def save(iterator: Any, folder: Path) -> str:
    """Write the iterator's state into `folder`; returns "" or, when it can not be saved, the reason.

    Raises OSError when the folder can not be written, as TensorFlow's error would be in Python.
    """
    if not isinstance(iterator, tf.data.Iterator):
        return "not a tf.data iterator"
    try:
        tf.train.Checkpoint(iterator=iterator).write(str(folder / _PREFIX))
    except _REFUSALS as error:
        for leftover in folder.glob(f"{_PREFIX}*"):
            leftover.unlink()
        return str(error.message).splitlines()[0][:200]
    except tf.errors.OpError as error:
        raise _of_the_disk(error) or error from error
    return ""


def drop_drained(iterator: Any, folder: Path) -> str:
    """Remove a saved state that lacks the seeds of the epochs to come; returns why, or "" when it is whole.

    A shuffle that has given out its last element, which prefetching makes it do some batches before the end of the
    epoch, saves nothing (`ShuffleDatasetOpBase` in tensorflow/core/kernels/data/shuffle_dataset_op.cc): restored, the
    rest of the epoch is right, and the next is shuffled as if it were an earlier one. Skipping has no such fault.
    """
    if not _shuffles(iterator) or _holds(folder, _OF_A_LIVE_SHUFFLE):
        return ""
    for file in folder.glob(f"{_PREFIX}*"):
        file.unlink()
    return "the shuffle of this epoch is over"


def _shuffles(iterator: Any) -> bool:
    """Whether a shuffle is among the datasets that the iterator's is made of."""
    waiting: list[Any] = [getattr(iterator, "_dataset", None)]
    while waiting:
        dataset = waiting.pop()
        if "Shuffle" in type(dataset).__name__:
            return True
        waiting += dataset._inputs() if hasattr(dataset, "_inputs") else []
    return False


def _holds(folder: Path, key: bytes) -> bool:
    """Whether one of the iterator's files holds these bytes; they may be large and are read piece by piece."""
    for file in folder.glob(f"{_PREFIX}*"):
        with file.open("rb") as opened:
            tail = b""
            while piece := opened.read(1 << 20):
                if key in tail + piece:
                    return True
                tail = piece[-len(key) :]
    return False


def _of_the_disk(error: Any) -> OSError | None:
    """TensorFlow ends the message of a write that failed with the words of strerror."""
    for code in _DISK:
        if os.strerror(code) in str(error.message):
            return OSError(code, os.strerror(code))
    return None


def is_saved(folder: Path) -> bool:
    """Whether a checkpoint folder holds an iterator."""
    return (folder / f"{_PREFIX}.index").is_file()


def restore(iterator: Any, folder: Path) -> None:
    """Give an iterator of the same pipeline the saved state."""
    tf.train.Checkpoint(iterator=iterator).read(str(folder / _PREFIX)).assert_consumed()


def make(epochs: Any, count: int) -> int:
    """Make that many iterators over the data of a Keras epoch iterator and drop them; returns their number.

    A dataset's shuffle draws new seeds for every iterator made of it, so a process that skips epochs has to make those
    of the skipped ones too. No data is taken.
    """
    for _ in range(count):
        iter(epochs._distributed_dataset)
    return count


def pass_epochs(epochs: Any, count: int) -> None:
    """Let a PyDataset know of epochs that an earlier attempt has done: many bring their samples into another order."""
    dataset: Any = getattr(epochs.data_adapter, "py_dataset", None)
    for _ in range(0 if dataset is None else count):
        if hasattr(dataset, "on_epoch_begin"):  # not yet in Keras 3.5
            dataset.on_epoch_begin()
        dataset.on_epoch_end()


def skip(iterator: Any, batches: int, tell: Callable[[str], None] = lambda text: None) -> int:
    """Take up to that many batches and drop them; returns how many there were. Long ones say how far they are."""
    started = told = time.monotonic()
    for taken in range(batches):
        try:
            next(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            return taken
        now = time.monotonic()
        if now - told >= _TELL_SECONDS:
            told = now
            tell(f"taking the batches of the epoch anew: {taken + 1} of {batches}, {now - started:.0f} s")
    return batches


def is_reproducible(iterator: Any) -> bool:
    """Whether the same script takes the same batches in a new process: it has set a seed, and demands an order."""
    from tensorflow.python.eager import context

    if context.global_seed() is None:
        return False
    dataset = getattr(iterator, "_dataset", None)
    return dataset is not None and dataset.options().deterministic is not False
