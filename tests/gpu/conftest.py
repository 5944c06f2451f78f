"""The real pynvml on the scripted driver from tests/rig, in the test's process and with a manually set clock."""

from __future__ import annotations

import ctypes
import fcntl
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

RIG = Path(__file__).parents[1] / "rig"


@pytest.fixture(name="driver", scope="session")
def _driver() -> Path:
    """The folder with the fake driver's libraries, which are built once per checkout."""
    built = RIG / "built"
    sources = [*RIG.glob("*.[ch]"), *RIG.glob("symbols/*"), RIG / "build.sh"]
    done = built / "done"
    built.mkdir(exist_ok=True)
    with (built / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists() or done.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            subprocess.run(["sh", str(RIG / "build.sh"), str(built)], check=True, capture_output=True, timeout=240)
            done.touch()
    return built / "driver"


class Scripted:
    """A machine whose GPUs follow a script (tests/rig/README.md)."""

    def __init__(self, library: Any, clock: Path) -> None:
        self._library, self._clock, self._hidden = library, clock, set[str]()
        self.at(0)

    def at(self, seconds: float) -> float:
        """Set the script's clock."""
        self._clock.write_text(str(seconds))
        return seconds

    def hide(self, *symbols: str) -> None:
        """Simulate an older driver, without these functions."""
        self._hidden.update(symbols)

    def __getattr__(self, symbol: str) -> Any:
        if symbol in self._hidden:
            raise AttributeError(symbol)
        return getattr(self._library, symbol)


@pytest.fixture(name="machine")
def _machine(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Scripted]:
    """Return a function that creates a machine from a script."""

    def start(script: str) -> Scripted:
        # A copy is a separate library, which has not read a script yet.
        library = shutil.copy(driver / "libnvidia-ml.so.1", tmp_path / "libnvidia-ml.so.1")
        clock, timeline = tmp_path / "clock", tmp_path / "timeline"
        clock.write_text("0")
        timeline.write_text(script)
        monkeypatch.setenv("FAKE_NVML_SCRIPT", str(timeline))
        monkeypatch.setenv("FAKE_NVML_CLOCK", str(clock))
        scripted = Scripted(ctypes.CDLL(str(library)), clock)
        monkeypatch.setattr(pynvml, "nvmlLib", scripted)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return scripted

    return start
