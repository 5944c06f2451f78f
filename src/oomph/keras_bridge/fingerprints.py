"""Fingerprints: 64-bit hashes of a batch, a step's logs or a state.

TensorFlow's own `Fingerprint` operation hashes tensors in place, at memory speed (FarmHash;
tensorflow/core/kernels/fingerprint_op.cc). It runs on the host, so values on a GPU are first reduced to sums there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.graph import Slot, compiled

_HOST = "/CPU:0"
_METHOD = "farmhash64"
_WHOLE_BYTES = 1 << 16
"""The size, in bytes, up to which an array is hashed byte by byte."""
_AT_ONCE_BYTES = 64 << 20
"""The size, in bytes, above which an array is hashed in blocks of rows, so that only one block at a time is copied."""
_SAMPLED_BYTES = 2 << 30
"""The size, in bytes, above which an array is only sampled: reading more at each checkpoint would delay training.

Checkpoints do not store arrays of that size either.
"""
_PIECES, _PIECE = 4096, 512
_BYTES_PER_SECOND = 2e9
"""The assumed speed of hashing variables, in bytes per second, before the first measurement."""
_GRANTED_SECONDS = 0.05
"""The time, in seconds, that state fingerprints may always take, so that even short first epochs get one."""
_ROW = 512
"""The row length, in 8-byte words, of the table in which a larger array is summed by row and by column.

Such sums run at memory speed and depend on the order of the elements.
"""


def of_tensors(tensors: Sequence[Any]) -> Any:
    """Return the fingerprint of a sequence of tensors as int64 [1] on the host. Also works while tracing."""
    with tf.device(_HOST):
        each = [_of_tensor(tensor) for tensor in tensors if _can_be_hashed(tensor)]
        together = (
            each[0] if len(each) == 1 else _of_tensor(tf.concat(each, axis=0)) if each else tf.zeros([1, 8], "uint8")
        )
        return tf.bitcast(together, tf.int64)


def none() -> Any:
    """Return the fingerprint of no data."""
    return tf.zeros([1], tf.int64)


def joined(first: Any, second: Any) -> Any:
    """Combine two fingerprints into one."""
    with tf.device(_HOST):
        return tf.bitcast(_of_tensor(tf.concat([first, second], axis=0)), tf.int64)


def as_number(fingerprint: Any) -> int:
    """Convert a computed fingerprint to a number below 2**64."""
    return 0 if fingerprint is None else int(np.asarray(fingerprint).view(np.uint64)[0])


def of_logs(logs: Any) -> int:
    """Return the fingerprint of a step's result. Reading the logs waits for the device."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in tf.nest.flatten(logs):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return int.from_bytes(digest.digest(), "little")


def of_array(array: Any) -> str:
    """Return the hexadecimal fingerprint of a NumPy array's values, dtype and shape, sampling very large arrays."""
    digest = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=8)
    if array.dtype.hasobject:
        known = (str, bytes, bool, int, float, type(None))
        items = (each if type(each) in known else type(each).__name__ for each in array.reshape(-1).tolist())
        digest.update(repr(list(items)).encode())
        return digest.hexdigest()
    for block in _blocks(array):
        _take_in(digest, np.ascontiguousarray(block).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _blocks(array: Any) -> Iterator[Any]:
    """Yield the parts of an array to hash: the whole array, blocks of rows, or samples."""
    if array.nbytes > _SAMPLED_BYTES:
        yield _sampled(array)
    elif array.nbytes <= _AT_ONCE_BYTES:
        yield array
    else:
        rows = max(1, _AT_ONCE_BYTES // (array.nbytes // len(array)))
        yield from (array[start : start + rows] for start in range(0, len(array), rows))


def _take_in(digest: Any, flat: Any) -> None:
    """Add an array to a digest: its bytes up to `_WHOLE_BYTES`, and otherwise the sums of its rows and columns."""
    if flat.nbytes > _WHOLE_BYTES:
        rows = flat.nbytes // (8 * _ROW)
        table = flat[: rows * 8 * _ROW].view(np.uint64).reshape(rows, _ROW)
        digest.update(table.sum(axis=0, dtype=np.uint64).tobytes())
        digest.update(table.sum(axis=1, dtype=np.uint64).tobytes())
        flat = flat[rows * 8 * _ROW :]
    digest.update(flat.tobytes())


def _sampled(array: Any) -> Any:
    """Return 4096 evenly spaced pieces of an array, in order."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat  # never a full copy, whatever the strides
    starts = np.linspace(0, array.size - _PIECE, _PIECES, dtype=np.int64).tolist()
    return np.concatenate([flat[start : start + _PIECE] for start in starts])


class StateFingerprint:
    """The fingerprint of many variables, computed on their devices, and only as often as time allows.

    Args:
        slots: the variables, in a fixed order.
        since: when the time budget starts, in seconds on the monotonic clock, or None for now.
    """

    def __init__(self, slots: Iterable[Slot], since: float | None = None) -> None:
        self.slots = list(slots)
        self._compute = compiled(self._of_all)
        self._since = time.monotonic() if since is None else since
        self._spent = 0.0
        """The time, in seconds, spent on computations so far, except for the first, which includes tracing."""
        self.seconds = -1.0
        """The duration, in seconds, of the last computation: 0 for the first one, and negative before it."""

    def is_of(self, slots: Sequence[Slot]) -> bool:
        """True if `slots` are the variables that this fingerprint covers."""
        return len(slots) == len(self.slots) and all(
            one.handle is other.handle for one, other in zip(slots, self.slots, strict=True)
        )

    def is_affordable(self, share: float) -> bool:
        """True if all computations, including one now, would stay within this share of the time or be negligible."""
        seconds = self.seconds
        if seconds < 0:
            seconds = sum(slot.nbytes for slot in self.slots) / _BYTES_PER_SECOND
        return self._spent + seconds <= _GRANTED_SECONDS + (time.monotonic() - self._since) * share

    def compute(self) -> int:
        """Compute the fingerprint of the current values, or return 0 if there are no variables."""
        started = time.monotonic()
        found = as_number(self._compute()) if self.slots else 0
        self.seconds = time.monotonic() - started if self.seconds >= 0 else 0.0
        self._spent += self.seconds
        return found

    def _of_all(self) -> Any:
        return of_tensors([_summed_up(slot) for slot in self.slots])


def _of_tensor(tensor: Any) -> Any:
    return tf.raw_ops.Fingerprint(data=tf.reshape(tensor, [1, -1]), method=_METHOD)


def _can_be_hashed(tensor: Any) -> bool:
    return tensor.dtype not in (tf.resource, tf.variant)


def _summed_up(slot: Slot) -> Any:
    """Return a variable's value or, on a GPU, two sums over its bits, since copying everything to the host is slow."""
    value = slot.read()
    if "GPU" not in slot.device or value.dtype.size not in (2, 4, 8) or not value.dtype.is_floating:
        return value
    with tf.device(slot.device):
        words = {2: tf.int16, 4: tf.int32, 8: tf.int64}[value.dtype.size]
        bits = tf.cast(tf.bitcast(tf.reshape(value, [-1]), words), tf.int64)
        places = tf.range(tf.size(bits, tf.int64), dtype=tf.int64) * 2 + 1
        return tf.stack([tf.reduce_sum(bits), tf.reduce_sum(bits * places)])
