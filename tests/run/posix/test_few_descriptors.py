"""Low and high limits on open files: `oomph run` works wherever plain Python does."""

from __future__ import annotations

import os
import resource

import pytest

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def limited(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


@pytest.mark.parametrize("count", [8, 10, 12, 15, 20, 31, 32, 40, 64])
def test_script_runs_with_any_open_file_limit(work, count):
    work.script("import sys; print('out'); print('err', file=sys.stderr); open('kept', 'w').write('1'); sys.exit(3)")
    plain = work.plain("train.py", preexec_fn=limited(count))
    ours = work.run("train.py", preexec_fn=limited(count))
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout) == (3, b"out\n")
    said = [line for line in ours.stderr.splitlines() if line.startswith(b"oomph: ")]
    assert b"err" in ours.stderr.splitlines()
    assert any(b"the script without oomph" in line for line in said) == (count < 32), ours.stderr


@pytest.mark.skipif(HARD < 4096, reason="no process here may have as many files open")
def test_stderr_is_read_even_with_descriptors_beyond_a_thousand(work):
    """`select` does not support descriptors from 1024 on: a script whose stderr is not read would wait forever."""

    def crowded():
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, HARD))
        null = os.open(os.devnull, os.O_RDONLY)
        for number in range(3, 1100):
            if number != null:
                os.dup2(null, number, inheritable=True)

    work.script("import sys\nfor _ in range(3000): print('x' * 100, file=sys.stderr)\nprint('end')")
    ours = work.run("train.py", preexec_fn=crowded, close_fds=False, timeout=60)
    assert ours.returncode == 0, ours.stderr[-1000:]
    assert ours.stdout == b"end\n"
    assert ours.stderr.count(b"x" * 100) == 3000
