"""Ends a child process: SIGTERM first, then SIGKILL. Runs in `oomph rehearse` and `oomph demo`."""

from __future__ import annotations

import subprocess


def end(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """End the child and wait for it; send SIGKILL if SIGTERM has no effect within the grace period."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
