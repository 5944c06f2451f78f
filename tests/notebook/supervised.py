"""Real kernels under oomph's supervision, driven as a Jupyter client drives them."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

import oomph

LIMIT = 60.0
ARGV = [sys.executable, "-m", "oomph.notebook.kernel", "-f", "{connection_file}"]
PACKAGES = str(Path(oomph.__file__).parents[1])


def environ(**more: str) -> dict[str, str]:
    """Return an environment without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OOMPH_", "JPY_", "PYTHON"))}
    return {**kept, "PYTHONPATH": PACKAGES, **more}


@dataclass
class Answered:
    """What a client received for one request."""

    reply: dict[str, Any]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """The messages of the outputs, each with its type under "kind"."""

    def text(self, name: str) -> str:
        """Return the text of a stream."""
        return "".join(each["text"] for each in self.outputs if each["kind"] == "stream" and each["name"] == name)

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [each for each in self.outputs if each["kind"] == "error"]


class SupervisedKernel:
    """A kernel, with the client that started it."""

    def __init__(
        self, folder: Path, argv: list[str] | None = None, manager: KernelManager | None = None, **variables: str
    ) -> None:
        self.folder = folder
        self.manager = manager or KernelManager()
        self.manager._kernel_spec = KernelSpec(argv=argv or ARGV, display_name="test", language="python")
        self.manager.start_kernel(cwd=str(folder), env=environ(**variables))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)
        self._published: list[dict[str, Any]] = []
        self._replies: list[dict[str, Any]] = []

    @property
    def supervisor(self) -> int:
        return int(self.manager.provisioner.pid)

    @property
    def pid(self) -> int:
        return int(self.execute("import os; print(os.getpid())").text("stdout"))

    def send(self, code: str, **options: Any) -> str:
        return str(self.client.execute(code, **options))

    def execute(self, code: str, **options: Any) -> Answered:
        return self.wait(self.send(code, **options))

    def wait(self, message: str) -> Answered:
        """Return what belongs to a request, once it was answered and is idle. Raises TimeoutError if it is not."""
        until = time.monotonic() + LIMIT
        found = Answered(dict(self._take(self._replies, message, until)["content"]))
        while True:
            each = self._take(self._published, message, until)
            if each["msg_type"] == "status":
                if each["content"]["execution_state"] == "idle":
                    return found
            else:
                found.outputs.append({"kind": each["msg_type"], **each["content"]})

    def _take(self, received: list[dict[str, Any]], message: str, until: float) -> dict[str, Any]:
        """Return the next message that belongs to a request, while both channels are read, as clients do."""
        while time.monotonic() < until:
            for channel, kept in (
                (self.client.iopub_channel, self._published),
                (self.client.shell_channel, self._replies),
            ):
                while channel.msg_ready():
                    kept.append(channel.get_msg(timeout=1))
            for number, each in enumerate(received):
                if each["parent_header"].get("msg_id") == message:
                    return received.pop(number)
            time.sleep(0.01)
        raise TimeoutError("no reply, or never idle")

    def ended(self, seconds: float = 20.0) -> int:
        """Wait until the supervisor has exited, and return its return code as in `subprocess`."""
        return int(self.manager.provisioner.process.wait(seconds))

    def kill(self) -> None:
        """Kill the idle kernel. What is sent before its connections are closed is lost with it."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid), LIMIT, "the kernel survives SIGKILL")
        time.sleep(0.1)

    def interrupt_one_pid(self) -> None:
        """Interrupt as VS Code does."""
        os.kill(self.supervisor, signal.SIGINT)

    def __enter__(self) -> SupervisedKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def wait_until(true: Any, seconds: float, what: str) -> float:
    """Wait until a condition holds, and return how long that took. Raises AssertionError if it takes too long."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < seconds, what
        time.sleep(0.02)
    return time.monotonic() - started


def lives(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
