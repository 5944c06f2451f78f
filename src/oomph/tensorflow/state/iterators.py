"""Where a tf.data iterator stands: saved and restored exactly when it can be, otherwise skipped to.

TensorFlow saves an iterator with everything in its buffers (shuffle, prefetch). Pipelines with a Python generator or
other state outside the graph refuse; for those the number of batches taken is kept, and a resumed fit takes that many
again.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import tensorflow as tf

from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.names.tensorflow2 import TENSORFLOW
from oomph.tensorflow.state import pipelines

_PREFIX = "iterator"
_OF_A_LIVE_SHUFFLE = b"end_of_input_sequence"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE)
_NOISE = re.compile(r"\{\{[^}]*\}\} | \[Op:\w+\]| name: $|\.(?= \[Op:)")
"""Of TensorFlow's own words about where in its code it was."""
_REFUSALS = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)


def save(iterator: Any, folder: Path) -> str:
    """Write the iterator's state into `folder`; returns "" or, when it cannot be saved, the reason.

    Raises OSError when the folder cannot be written, as TensorFlow's error would be in Python.
    """
    if not isinstance(iterator, tf.data.Iterator):
        return "not a tf.data iterator"
    try:
        tf.train.Checkpoint(iterator=iterator).write(str(folder / _PREFIX))
    except _REFUSALS as error:
        _remove(folder)
        return _NOISE.sub("", str(error.message).splitlines()[0])[:200]
    except tf.errors.OpError as error:
        raise _of_the_disk(error) or error from error
    return ""


def drop_drained(iterator: Any, folder: Path) -> str:
    """Remove a saved state that lacks the seeds of the epochs to come; returns why, or "" when it is whole.

    A shuffle that has given out its last element, which prefetching makes it do some batches before the end of the
    epoch, saves nothing (`ShuffleDatasetOpBase` in tensorflow/core/kernels/data/shuffle_dataset_op.cc): restored, the
    rest of the epoch is right, and the next is shuffled as if it were an earlier one. Skipping has no such fault.

    Nor is one whole that goes on writing the file of a cache, which a new process begins anew.
    """
    if pipelines.writes_cache_file(TENSORFLOW.dataset_of_iterator.get(iterator)):
        _remove(folder)
        return "the file of a cache is being written"
    if not pipelines.shuffles(TENSORFLOW.dataset_of_iterator.get(iterator)) or _holds(folder, _OF_A_LIVE_SHUFFLE):
        return ""
    _remove(folder)
    return "the shuffle of this epoch is over"


def _remove(folder: Path) -> None:
    for file in folder.glob(f"{_PREFIX}*"):
        file.unlink()


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


def is_one_pass(data: Any) -> bool:
    """Whether data can be gone through only once, as a generator can."""
    return hasattr(type(data), "__next__")


def depends_on_python(epochs: Any) -> bool:
    """Whether the batches of a Keras epoch iterator are made by Python, or depend on variables.

    So it is with a generator, a PyDataset, and a `tf.data` pipeline that calls Python or reads a variable.
    """
    if type(epochs.data_adapter).__name__ in ("GeneratorDataAdapter", "PyDatasetAdapter"):
        return True
    return pipelines.depends_on_python(KERAS.distributed_dataset.of(epochs))
