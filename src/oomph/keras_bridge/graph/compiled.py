"""Wraps a method in its own `tf.function`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def compiled(function: Callable[..., Any], jit_compile: bool | None = None) -> Any:
    """The function, traced unchanged, without AutoGraph.

    TensorFlow warns about a function that is traced repeatedly, and counts functions of several objects with the same
    code as one. It does not look into a `partial`.
    """
    untouched = tf.autograph.experimental.do_not_convert(function)
    return tf.function(functools.partial(untouched), reduce_retracing=True, jit_compile=jit_compile)
