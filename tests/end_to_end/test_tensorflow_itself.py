"""What TensorFlow does, and oomph is built around: should this change, so may oomph."""

from __future__ import annotations

import signal

import pytest

pytestmark = pytest.mark.slow


def test_xla_frees_the_buffers_of_variables_when_it_runs_out_of_memory_unless_somebody_holds_them(work, memory):
    """The reason for holding the weights through the first step of a form compiled by XLA."""
    work.script("freed_by_xla.py")
    ended = work.plain("freed_by_xla.py", env=memory(64))
    assert ended.stdout.startswith("ResourceExhaustedError\nheld True\n"), ended.stdout + ended.stderr[-3000:]
    assert "bare True" not in ended.stdout


def test_an_array_that_does_not_fit_ends_the_process_unless_an_operation_has_looked_for_room(work, memory):
    """The reason for making tensors of arrays with `tensor_of` alone."""
    work.script("copied.py")
    ended = work.plain("copied.py", env=memory(64))
    assert ended.stdout == "ResourceExhaustedError True\n", ended.stdout + ended.stderr[-3000:]
    assert ended.returncode == -signal.SIGSEGV
