"""Statistics of TensorFlow's allocator, and reports of its waits for memory."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from oomph.keras_bridge.runtime import allocator
from oomph.keras_bridge.runtime.allocator import DeviceMemory, MemoryWait, waits_with_a_limit
from oomph.script.pulse import Pulse


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
    """Runs in a separate process: only an allocator with a limit, set before TensorFlow starts, keeps statistics."""
    limited = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "40", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, "-c", PEAK], env={**os.environ, **limited}, timeout=120, check=False)
    assert done.returncode == 0


def test_missing_device_has_no_memory_statistics():
    memory = DeviceMemory("GPU:7", None)
    memory.reset_peak()
    assert (memory.in_use_bytes(), memory.peak_bytes()) == (None, None)


WAITING = "202 0x7f1 0x189 0x0 0x7ffe10 0x0 0xffffffff 0x7f 0x7f"


@pytest.mark.parametrize(
    ("threads", "waits"),
    [
        ([("python", "running"), ("tf_Compute", WAITING)], True),
        ([("tf_Compute", WAITING.replace("0x7ffe10", "0x0"))], False),
        ([("tf_Compute", WAITING.replace("0x189", "0x80"))], False),
        ([("tf_Compute", WAITING.replace("202", "232"))], False),
        ([("python", WAITING)], False),
        ([("tf_Compute", "")], False),
        ([], False),
    ],
    ids=["it waits", "without a limit", "another kind", "another call", "another's thread", "unknown", "nobody"],
)
def test_an_allocator_wait_is_recognised_by_its_timed_sleep(threads, waits):
    assert waits_with_a_limit(threads, "x86_64") is waits


@pytest.fixture
def look(monkeypatch):
    """Check once; return how many times it was reported, and what was printed."""

    def looked(silent, used, threads=(("tf_Compute", WAITING),), times=1):
        told, said = [], []
        pulse = types.SimpleNamespace(silent_seconds=silent, is_heard=True, tell_power=lambda: told.append(1))
        watch = MemoryWait(types.SimpleNamespace(pulse=pulse, say=said.append))
        watch._memory = types.SimpleNamespace(limit_bytes=100, in_use_bytes=lambda: used)
        monkeypatch.setattr(allocator, "_threads", lambda: threads)
        monkeypatch.setattr(allocator.platform, "machine", lambda: "x86_64")
        for _ in range(times):
            watch.look()
        looked.said = said
        return len(told), len(said)

    return looked


def test_a_memory_wait_is_recorded_each_time_and_printed_once_a_minute(look):
    assert look(silent=5, used=80, times=3) == (3, 1)


def test_later_memory_wait_messages_give_the_time_waited_so_far(look, monkeypatch):
    monkeypatch.setattr(allocator, "_TOLD_SECONDS", 0.0)
    look(silent=5, used=80, times=21)
    first, *_, last = look.said
    assert (first.endswith("before it fails"), last.endswith("before it fails; waited 10 s so far")) == (True, True)


@pytest.mark.parametrize(
    ("silent", "used", "threads"),
    [
        (0.5, 99, (("tf_Compute", WAITING),)),
        (601, 99, (("tf_Compute", WAITING),)),
        (5, 60, (("tf_Compute", WAITING),)),
        (5, None, (("tf_Compute", WAITING),)),
        (5, 99, (("tf_Compute", "running"),)),
        (5, 80, ()),
    ],
    ids=["progress", "ten minutes", "room", "no figure", "it computes", "the kernel does not tell"],
)
def test_silence_without_signs_of_a_memory_wait_is_not_reported(look, silent, used, threads):
    assert look(silent, used, threads) == (0, 0)


def test_full_memory_counts_as_a_wait_if_the_kernel_does_not_show_threads(look):
    assert look(silent=5, used=95, threads=()) == (1, 1)


def test_a_memory_wait_message_does_not_count_as_progress():
    import os

    read, write = os.pipe()
    pulse = Pulse(write)
    pulse._seen_ns -= 10**10
    pulse.tell_power()
    assert os.read(read, 1000)
    assert pulse.silent_seconds >= 10
