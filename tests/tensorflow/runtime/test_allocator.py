"""What the allocator says of itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oomph.keras_bridge.runtime.allocator import DeviceMemory


@pytest.mark.parametrize(
    ("use", "limit", "expected"),
    [("1", "300", 300 << 20), ("true", "2", 2 << 20), ("0", "300", None), ("1", "", None), ("", "300", None)],
)
def test_cpu_memory_limit_is_read_from_the_environment(monkeypatch, use, limit, expected):
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", use)
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", limit)
    assert DeviceMemory.of_training_device() == DeviceMemory("CPU:0", expected)


PEAK = """
import tensorflow as tf
from oomph.keras_bridge.runtime.allocator import DeviceMemory
memory = DeviceMemory.of_training_device()
large = tf.zeros((16 << 20,), tf.uint8) + 1
assert memory.peak_bytes() >= 16 << 20, memory.peak_bytes()
assert memory.was_nearly_full()
del large
memory.reset_peak()
assert memory.peak_bytes() is None or memory.peak_bytes() < 16 << 20, memory.peak_bytes()
"""


def test_peak_memory_is_measured_since_the_last_reset():
    """In a process of its own: only an allocator with a limit, set before TensorFlow starts, keeps statistics."""
    limited = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "40", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, "-c", PEAK], env={**os.environ, **limited}, timeout=120, check=False)
    assert done.returncode == 0


def test_a_missing_device_reports_no_memory_figures():
    memory = DeviceMemory("GPU:7", None)
    memory.reset_peak()
    assert (memory.in_use_bytes(), memory.peak_bytes()) == (None, None)
