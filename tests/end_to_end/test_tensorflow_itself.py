"""What TensorFlow does, and oomph is built around: should this change, so may oomph."""

from __future__ import annotations

import signal

import pytest

pytestmark = pytest.mark.slow


def test_xla_out_of_memory_frees_unreferenced_variable_buffers(work, memory):
    """The reason for holding the weights through the first step of a form compiled by XLA."""
    work.script("freed_by_xla.py")
    ended = work.plain("freed_by_xla.py", env=memory(64))
    assert ended.stdout.startswith("ResourceExhaustedError\nheld True\n"), ended.stdout + ended.stderr[-3000:]
    assert "bare True" not in ended.stdout


def test_oversized_array_crashes_unless_allocated_by_an_operation(work, memory):
    """The reason for making tensors of arrays with `tensor_of` alone."""
    work.script("copied.py")
    ended = work.plain("copied.py", env=memory(64))
    assert ended.stdout == "ResourceExhaustedError True\n", ended.stdout + ended.stderr[-3000:]
    assert ended.returncode == -signal.SIGSEGV
