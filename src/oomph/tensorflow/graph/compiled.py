"""A method as a `tf.function` of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def compiled(function: Callable[..., Any], jit_compile: bool | None = None) -> Any:
    """The function, traced as it is, without AutoGraph.

    TensorFlow warns of a function that is traced again and again, and takes those of several objects with the same
    code for one; a `partial` it does not look into.
    """
    untouched = tf.autograph.experimental.do_not_convert(function)
    return tf.function(functools.partial(untouched), reduce_retracing=True, jit_compile=jit_compile)
