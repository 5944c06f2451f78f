"""TensorFlow behaviour that oomph is built around: if it changes, oomph may change, too."""

from __future__ import annotations

import signal

import pytest

pytestmark = pytest.mark.slow


def test_xla_out_of_memory_frees_unreferenced_variable_buffers(work, memory):
    """This is why the weights are held during the first step of a form compiled by XLA."""
    work.script("freed_by_xla.py")
    ended = work.plain("freed_by_xla.py", env=memory(64))
    assert ended.stdout.startswith("ResourceExhaustedError\nheld True\n"), ended.stdout + ended.stderr[-3000:]
    assert "bare True" not in ended.stdout


def test_oversized_array_crashes_unless_allocated_by_an_operation(work, memory):
    """This is why arrays are converted to tensors only with `tensor_of`."""
    work.script("copied.py")
    ended = work.plain("copied.py", env=memory(64))
    assert ended.stdout == "ResourceExhaustedError True\n", ended.stdout + ended.stderr[-3000:]
    assert ended.returncode == -signal.SIGSEGV
