"""A child process that has to end: asked first, then killed."""

from __future__ import annotations

import subprocess


def end(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Return when the child is gone; with SIGKILL when SIGTERM has not been enough after the time of grace."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
