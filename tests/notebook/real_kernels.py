"""Real kernels, plain or under oomph's supervision, driven as a Jupyter client drives them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

import oomph

LIMIT = 120.0
PLAIN = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
SUPERVISED = (sys.executable, "-m", "oomph.notebook.kernel", "-f", "{connection_file}")
PACKAGES = str(Path(oomph.__file__).parents[1])
_THEIRS = ("OOMPH_", "JPY_", "PYTHON", "PYTEST_")
"""Settings of whoever runs the tests. Under pytest, ipykernel would not capture what other processes print."""
_OURS = {
    "PYTHONPATH": PACKAGES,
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
_LOOK_SECONDS = 0.01


def environ(**more: str) -> dict[str, str]:
    """Return an environment for a kernel, in which TensorFlow computes on the CPU in a fixed order."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_THEIRS)}
    return {**kept, **_OURS, **more}


@dataclass(frozen=True)
class Ran:
    """A cell that has run, or died with its kernel."""

    request: str
    """The id of the client's execute request."""
    messages: tuple[dict[str, Any], ...]
    """All messages from the kernel since then, whichever cell they belong to."""
    died: bool = False

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the messages of these types."""
        return [each for each in self.messages if each["msg_type"] in kinds]

    def own(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the contents of the messages of these types that belong to this cell."""
        return [each["content"] for each in self.of(*kinds) if each["parent_header"].get("msg_id") == self.request]

    @property
    def is_over(self) -> bool:
        """True if the cell has its reply, and the kernel is idle."""
        states = [each["execution_state"] for each in self.own("status")]
        return bool(self.own("execute_reply")) and "idle" in states

    @property
    def reply(self) -> dict[str, Any]:
        (found,) = self.own("execute_reply")
        return found

    @property
    def out(self) -> str:
        return self._stream("stdout")

    @property
    def err(self) -> str:
        return self._stream("stderr")

    def _stream(self, name: str) -> str:
        return "".join(each["text"] for each in self.own("stream") if each["name"] == name)

    @property
    def error(self) -> str:
        """The name of the exception, or an empty string."""
        return "".join(each["ename"] for each in self.own("error"))

    @property
    def value(self) -> str:
        return "".join(each["evalue"] for each in self.own("error"))

    @property
    def traceback(self) -> str:
        return "\n".join(line for each in self.own("error") for line in each["traceback"])

    @property
    def told(self) -> str:
        """What oomph reported, in displays that are updated in place."""
        displays = {
            each["transient"].get("display_id", ""): each["data"]["text/plain"]
            for each in self.own("display_data", "update_display_data")
        }
        return "\n".join(displays.values())


class Kernel:
    """A kernel in a folder, and its client.

    Args:
        folder: its working directory.
        argv: the command line in its kernelspec.
        manager: the manager that starts it; by default, a new one.
        variables: additional environment variables.
    """

    def __init__(
        self, folder: Path, argv: Sequence[str] = PLAIN, manager: KernelManager | None = None, **variables: str
    ) -> None:
        self.folder, self.manager = folder, manager or KernelManager()
        self.manager._kernel_spec = KernelSpec(argv=list(argv), display_name="test", language="python")
        self.manager.start_kernel(cwd=str(folder), env=environ(**variables))
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=LIMIT)
        except BaseException:
            self.end()
            raise
        self._messages: list[dict[str, Any]] = []
        self._sent: dict[str, int] = {}

    @property
    def started(self) -> int:
        """The PID of the process that Jupyter started: the kernel, or its supervisor."""
        return int(self.manager.provisioner.pid)

    @property
    def pid(self) -> int:
        """The PID of the kernel."""
        return self.started

    def send(self, code: str, cell_id: str | None = None, **options: Any) -> str:
        """Ask the kernel to run a cell, and return the id of the request."""
        if cell_id is None:
            request = str(self.client.execute(code, **options))
        else:
            message = self.client.session.msg("execute_request", {"code": code, "silent": False, "store_history": True})
            message["metadata"] = {"cellId": cell_id}
            self.client.shell_channel.send(message)
            request = str(message["header"]["msg_id"])
        self._sent[request] = len(self._messages)
        return request

    def wait(self, request: str, seconds: float = LIMIT) -> Ran:
        """Wait until a cell has finished, or its kernel is dead. Raises AssertionError if that takes too long."""
        until = time.monotonic() + seconds
        while not (ran := self.so_far(request)).is_over:
            if not self.manager.is_alive():
                time.sleep(0.1)  # what it has sent may still be on its way
                return Ran(request, self.so_far(request).messages, died=True)
            assert time.monotonic() < until, f"the cell takes longer than {seconds} s: {ran}"
            time.sleep(_LOOK_SECONDS)
        return ran

    def so_far(self, request: str) -> Ran:
        """Return what has arrived since a cell was sent."""
        for channel in (self.client.iopub_channel, self.client.shell_channel):  # both, as clients do
            while channel.msg_ready():
                self._messages.append(channel.get_msg(timeout=1))
        return Ran(request, tuple(self._messages[self._sent[request] :]))

    def run(self, code: str, seconds: float = LIMIT, after: float = 0.0, **options: Any) -> Ran:
        """Run a cell to its end, and keep listening for `after` seconds."""
        ran = self.wait(self.send(code, **options), seconds)
        if after:
            time.sleep(after)
            ran = self.so_far(ran.request)
        return ran

    def good(self, code: str, seconds: float = LIMIT, after: float = 0.0, **options: Any) -> Ran:
        """Run a cell that must not fail."""
        ran = self.run(code, seconds, after, **options)
        assert (ran.error, ran.died) == ("", False), ran.traceback or ran
        return ran

    def shut_down(self) -> None:
        """Shut the kernel down as Jupyter does."""
        self.manager.shutdown_kernel()

    def end(self) -> None:
        """End whatever is left of the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class SupervisedKernel(Kernel):
    """A kernel that oomph supervises."""

    def __init__(
        self, folder: Path, argv: Sequence[str] = SUPERVISED, manager: KernelManager | None = None, **variables: str
    ) -> None:
        super().__init__(folder, argv, manager, **variables)

    @property
    def pid(self) -> int:
        return int(self.good("import os; print(os.getpid())").out)

    def ended(self, seconds: float = 20.0) -> int:
        """Wait until the supervisor has exited, and return its return code as in `subprocess`."""
        return int(self.manager.provisioner.process.wait(seconds))

    def kill(self) -> None:
        """Kill the idle kernel. Messages sent to it before its connections close are lost."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid), LIMIT, "the kernel survives SIGKILL")
        time.sleep(0.1)

    def listen_again(self) -> None:
        """Wait until the client hears the kernel that follows: what it prints before the client reconnects is lost."""
        wait_until(lambda: self.run("print('heard')").out, LIMIT, "nothing is heard of the next kernel")

    def interrupt_one_pid(self) -> None:
        """Interrupt only the process that was started, as VS Code does."""
        os.kill(self.started, signal.SIGINT)

    def __enter__(self) -> SupervisedKernel:
        return self


def wait_until(true: Callable[[], object], seconds: float, what: str) -> float:
    """Wait until a condition holds, and return how long that took. Raises AssertionError if it takes too long."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < seconds, what
        time.sleep(0.02)
    return time.monotonic() - started


def lives(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
