"""Reproducible random numbers for eager `tf.random` operations in a script without a seed.

Without a seed, the kernel of `tf.random.normal` takes one from the system and counts its draws in a hidden counter. A
restarted script would draw other numbers. The stateless operations draw from a key and a count, with the same
distribution. Here the key comes from the run (`protocol/entropy.py`). The count is saved and restored with the states
of the global generators.

Scripts that set a seed are not affected. Traced operations are not affected either (`stateful_ops.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_numbers.stateful_ops import DRAWS
from oomph.keras_bridge.runtime.patching import patch
from oomph.protocol.entropy import Here


class EagerRandomOps:
    """The draws of one process.

    Args:
        entropy: the number of the run.
    """

    def __init__(self, entropy: str) -> None:
        digest = hashlib.blake2b(f"{entropy} tensorflow".encode(), digest_size=16).digest()
        self._key, self._upper = (int.from_bytes(half, "little") for half in (digest[:8], digest[8:]))
        self._here = Here(os.getpid())
        self.count = 0
        """The count of numbers drawn so far, in steps of the Philox counter."""

    def install(self) -> None:
        """Replace the operations. They behave as before unless they are called eagerly and without a seed."""
        for op in TENSORFLOW.stateful_random_ops:
            patch(*op.place, self._instead(op.value(), DRAWS[op.name]))

    def _instead(self, original: Callable[..., Any], draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*args: Any, seed: int | None = 0, seed2: int | None = 0, name: Any = None, **named: Any) -> Any:
            if seed or seed2 or not (self._here() and tf.executing_eagerly()):
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            try:
                key = tf.constant([self._key], tf.uint64)
                counter = tf.constant([self.count % (1 << 64), self._upper], tf.uint64)
                values, counts = draw(key, counter, *args, **named)
            except Exception:  # the kernel accepts more kinds of arguments, and reports errors in the others
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            self.count += int(counts)
            return values

        return drawn


installed: EagerRandomOps | None = None


def install(entropy: str) -> None:
    """Replace the operations once in this process; an empty `entropy` leaves them as they are."""
    global installed
    if entropy and installed is None:
        installed = EagerRandomOps(entropy)
        installed.install()
