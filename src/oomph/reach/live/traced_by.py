"""Finds the `tf.function` that is being traced, by the frames of this thread."""

from __future__ import annotations

import sys
from types import FrameType

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


def is_compiled_by_xla() -> bool:
    """True if a `tf.function` with `jit_compile=True` is being traced in this thread."""
    cls = TENSORFLOW.function.value()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, cls) and TENSORFLOW.jit_compile.get(owner, None):
            return True
        frame = frame.f_back
    return False
