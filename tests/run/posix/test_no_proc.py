"""A machine or sandbox without /proc: whatever plain Python can run is still supervised."""

from __future__ import annotations

import subprocess

import pytest

HIDDEN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


def may_hide() -> bool:
    try:
        return subprocess.run([*HIDDEN, "true"], capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(
    not may_hide(), reason="to hide /proc takes a mount namespace, and the right to make one"
)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("print('end')", 0),
        ("sys.exit(7)", 7),
        ("FIRST and os.abort(); print('end')", 0),
        (
            "FIRST and (subprocess.Popen(['sleep', '60']), os.kill(os.getpid(), 9)); print('end')",
            0,
        ),
    ],
)
def test_oomph_works_without_proc_and_shows_no_traceback(work, ending, code):
    work.script(f"import os, subprocess, sys\nFIRST = not os.path.exists('tried')\nopen('tried', 'w')\n{ending}\n")
    ended = subprocess.run(
        [*HIDDEN, *work.oomph("train.py")],
        cwd=work.folder,
        env=work.environ(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in ended.stderr, ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (code, b"" if code else b"end\n"), ended.stderr.decode()
