"""Real kernels, started as Jupyter starts them, each in its own folder and with a time limit for every cell."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LIMIT = 120.0


@dataclass
class Ran:
    """What a cell showed."""

    out: str = ""
    err: str = ""
    error: str = ""
    """The name of the exception, or an empty string."""
    value: str = ""
    traceback: str = ""
    died: bool = False
    displays: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """What oomph reported, in displays that are updated in place."""
        return "\n".join(self.displays.values())


@dataclass
class Kernel:
    """A kernel and its client."""

    manager: Any
    client: Any
    pid: int = field(init=False)

    def __post_init__(self) -> None:
        self.pid = int(self.manager.provisioner.pid)

    def run(self, code: str, limit: float = LIMIT) -> Ran:
        """Run a cell, and return what it showed; a kernel that dies ends the cell."""
        message, ran, until = self.client.execute(code), Ran(), time.monotonic() + limit
        while time.monotonic() < until:
            try:
                found = self.client.get_iopub_msg(timeout=0.5)
            except Exception:
                if not self.manager.is_alive():
                    ran.died = True
                    return ran
                continue
            if found["parent_header"].get("msg_id") != message:
                continue
            kind, content = found["msg_type"], found["content"]
            if kind == "stream":
                where = "out" if content["name"] == "stdout" else "err"
                setattr(ran, where, getattr(ran, where) + content["text"])
            elif kind in ("display_data", "update_display_data"):
                ran.displays[content["transient"].get("display_id", "")] = content["data"]["text/plain"]
            elif kind == "error":
                ran.error, ran.value = content["ename"], content["evalue"]
                ran.traceback = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return ran
        raise AssertionError(f"the cell takes longer than {limit} s: {ran}")

    def good(self, code: str) -> Ran:
        """Run a cell that must not fail."""
        ran = self.run(code)
        assert (ran.error, ran.died) == ("", False), ran
        return ran

    def interrupt(self) -> None:
        """Interrupt the kernel as Jupyter does."""
        self.manager.interrupt_kernel()

    def close(self) -> None:
        """End the kernel as Jupyter does."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=not self.manager.is_alive())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Return a function that starts a kernel in the test's folder, with additions to its environment."""
    from jupyter_client.manager import start_new_kernel

    kernels: list[Kernel] = []

    def start(folder: Path | None = None, **environ: str) -> Kernel:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "JPY_", "PYTHONDONT"))}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
        ready = {"IPYTHONDIR": str(tmp_path / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        manager, client = start_new_kernel(
            startup_timeout=60, kernel_name="python3", cwd=str(folder or tmp_path), env=plain | quiet | ready | environ
        )
        kernels.append(Kernel(manager, client))
        return kernels[-1]

    yield start
    for kernel in kernels:
        try:
            kernel.close()
        finally:
            try:
                os.kill(kernel.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
