"""Measures real steps of a small batch on the CPU, to correct what the simulation leaves out.

The process ends after the examination, so the steps may change weights. TensorFlow's allocator keeps the peak whatever
allocator it is; under BFC (`TF_CPU_ALLOCATOR_USE_BFC`) it counts chunks as on a GPU.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_STEPS = 3
_CPU = "CPU:0"


def measured_peak(model: Any, batch: Any) -> int | None:
    """The peak of three real steps with this batch, in bytes; None where the step fails or the CPU keeps no count."""
    step = tf.function(lambda data: model.train_step(data), autograph=False, jit_compile=False)
    peaks = []
    try:
        with tf.device(_CPU):
            for _ in range(_STEPS):
                tf.config.experimental.reset_memory_stats(_CPU)
                step(batch)
                peaks.append(int(tf.config.experimental.get_memory_info(_CPU)["peak"]))
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError):
        return None
    return max(peaks)
