"""A process that has exited is not taken for one that runs, even before its parent has noticed."""

from __future__ import annotations

import os
import subprocess

from oomph.process.process_identity import ProcessIdentity


def test_zombie_does_not_count_as_alive():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        child = ProcessIdentity.here(process.pid)
        assert child.lives
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not child.lives
    assert not child.lives
