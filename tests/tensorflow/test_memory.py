"""What the allocator says of itself."""

from __future__ import annotations

import pytest
import tensorflow as tf

from oomph.tensorflow.memory import DeviceMemory


@pytest.mark.parametrize(
    ("use", "limit", "expected"),
    [("1", "300", 300 << 20), ("true", "2", 2 << 20), ("0", "300", None), ("1", "", None), ("", "300", None)],
)
def test_the_limit_of_a_cpu_is_the_one_that_was_set(monkeypatch, use, limit, expected):
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", use)
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", limit)
    assert DeviceMemory.of_training_device() == DeviceMemory("CPU:0", expected)


def test_the_peak_is_that_since_the_last_reset():
    memory = DeviceMemory.of_training_device()
    memory.reset_peak()
    start = memory.peak_bytes() or 0
    large = tf.zeros((16 << 20,), tf.uint8) + 1
    if memory.peak_bytes() is None:
        pytest.skip("this allocator keeps no statistics")
    assert (memory.peak_bytes() or 0) >= start
    del large
    memory.reset_peak()
    assert (memory.peak_bytes() or 0) <= start + (16 << 20)


def test_a_device_that_is_not_there_says_nothing():
    memory = DeviceMemory("GPU:7", None)
    memory.reset_peak()
    assert (memory.in_use_bytes(), memory.peak_bytes()) == (None, None)
