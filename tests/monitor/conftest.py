"""The fake NVML from tests/rig, for tests of how the monitor handles it."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

RIG = Path(__file__).parents[1] / "rig"


@pytest.fixture(scope="session")
def fake_nvml() -> Path:
    """The folder with the fake libnvidia-ml.so.1, which is built once per checkout."""
    built = RIG / "built"
    sources = [*RIG.glob("*.[ch]"), *RIG.glob("symbols/*"), RIG / "build.sh"]
    done = built / "done"
    built.mkdir(exist_ok=True)
    with (built / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists() or done.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            subprocess.run(["sh", str(RIG / "build.sh"), str(built)], check=True, capture_output=True, timeout=300)
            done.touch()
    return built / "driver"
