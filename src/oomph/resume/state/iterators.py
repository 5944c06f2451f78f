"""The position of a tf.data iterator: saved and restored exactly if possible, otherwise reached by skipping.

TensorFlow saves an iterator with everything in its buffers (shuffle, prefetch). Pipelines with a Python generator or
other state outside the graph refuse. For those the number of batches taken is saved, and a resumed fit skips as many.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.protocol.reason_table import CACHE_FILE, EARLIER_SHUFFLE, NOT_TF_DATA, SHUFFLE_OVER
from oomph.protocol.reasons import Reason, because
from oomph.terminal.wrapping import shortened

_PREFIX = "iterator"
_OF_A_LIVE_SHUFFLE = b"end_of_input_sequence"
_OF_AN_ERROR = b"error_message"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE)
_NOISE = re.compile(r"\{\{[^}]*\}\} | \[Op:\w+\]| name: $|\.(?= \[Op:)")
"""The parts of TensorFlow's messages that locate its own code."""
_refused: WeakKeyDictionary[Any, Reason] = WeakKeyDictionary()
"""Datasets whose iterators cannot be saved, and why. TensorFlow prints warnings of its own at each try."""
_FOR_GOOD = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError)
"""Errors about the structure of a pipeline."""
_REFUSALS = (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)


def save(iterator: Any, folder: Path) -> Reason | None:
    """Write the iterator's state into `folder`; returns the reason if it cannot be saved.

    Raises OSError in place of TensorFlow's error if the folder cannot be written.
    """
    if not isinstance(iterator, tf.data.Iterator):
        return because("position-not-saved", why="not a tf.data iterator", kind=NOT_TF_DATA)
    dataset = TENSORFLOW.dataset_of_iterator.get(iterator)
    if dataset is not None and dataset in _refused:
        return _refused[dataset]
    try:
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
    """Return TensorFlow's reason, naming the script's call rather than the kernel."""
    call = datasets.drawn_call(dataset, said.partition(" ")[0])
    if not call:
        return because("position-not-saved", why=said)
    return because("position-not-saved", why=f"{call} is stateful", call=call)


def is_caching(iterator: Any) -> Reason | None:
    """Return why the iterator must not be saved now: it writes a cache file. None if it writes none.

    A new process starts the file over, so its state would be incomplete. And saving it begins another part of the
    cache, PREFIX_1; TensorFlow deletes every PREFIX_1* when such an iterator ends early, also files of the script.
    """
    caches = isinstance(iterator, tf.data.Iterator) and datasets.writes_cache_file(
        TENSORFLOW.dataset_of_iterator.get(iterator)
    )
    return because("position-not-saved", why="a cache file is being written", kind=CACHE_FILE) if caches else None


def drop_unusable(iterator: Any, folder: Path) -> Reason | None:
    """Remove a saved state that holds an error or lacks later epochs' seeds; return why, or None.

    A read-ahead stage saves a failed element's error with the others (`WriteStatus` in
    tensorflow/core/kernels/data/prefetch_dataset_op.cc). Once restored, it fails again, though its cause may be gone.

    A shuffle that has emitted its last element saves nothing (`ShuffleDatasetOpBase` in
    tensorflow/core/kernels/data/shuffle_dataset_op.cc). With prefetching, that happens some batches before the end of
    the epoch, and below another shuffle with a large buffer at its beginning, as when the files and then their lines
    are shuffled. Restored, the rest of the epoch is right, but the next epoch is shuffled like an earlier one. Skipping
    avoids this.
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
    """Return why iterators over a full cache cannot be saved; None if it does not keep the order of a shuffle."""
    why = "cache() keeps the order of a shuffle that is over"
    kept = datasets.caches_a_shuffle(dataset)
    return because("position-not-saved", why=why, kind=EARLIER_SHUFFLE) if kept else None


def _remove(folder: Path) -> None:
    for file in folder.glob(f"{_PREFIX}*"):
        file.unlink()


def _occurrences(folder: Path, key: bytes) -> int:
    """Count occurrences of these bytes in the iterator's files, which may be large and are read in chunks."""
    found = 0
    for file in folder.glob(f"{_PREFIX}*"):
        with file.open("rb") as opened:
            tail = b""
            while piece := opened.read(1 << 20):
                found += (tail + piece).count(key)
                tail = (tail + piece)[1 - len(key) :]
    return found


def _of_the_disk(error: Any) -> OSError | None:
    """The OSError behind a TensorFlow error: the message of a failed write ends with the text of strerror."""
    for code in _DISK:
        if os.strerror(code) in str(error.message):
            return OSError(code, os.strerror(code))
    return None


def is_saved(folder: Path) -> bool:
    """True if a checkpoint folder holds an iterator."""
    return (folder / f"{_PREFIX}.index").is_file()


def restore(iterator: Any, folder: Path) -> None:
    """Give an iterator of the same pipeline the saved state."""
    tf.train.Checkpoint(iterator=iterator).read(str(folder / _PREFIX)).assert_consumed()


def is_one_pass(data: Any) -> bool:
    """True if data can be iterated only once, like a generator."""
    return hasattr(type(data), "__next__")


def depends_on_python(epochs: Any) -> bool:
    """True if the batches of a Keras epoch iterator are made by Python, or depend on variables.

    True for a generator, a PyDataset, and a `tf.data` pipeline that calls Python or reads a variable.
    """
    if type(epochs.data_adapter).__name__ in ("GeneratorDataAdapter", "PyDatasetAdapter"):
        return True
    return datasets.depends_on_python(KERAS.distributed_dataset.of(epochs))
