"""A real kernel for tests, with all outputs that it sends and the cells that they address."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_client.manager import KernelManager

_SECONDS = 60


class Cell(NamedTuple):
    """A cell that has run."""

    request: str
    messages: list[dict[str, Any]]
    """The messages of the outputs that the kernel sent while the cell ran, whichever cell they address."""

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["msg_type"] in kinds]

    def stream(self, name: str) -> str:
        return "".join(each["content"]["text"] for each in self.of("stream") if each["content"]["name"] == name)


class Kernel:
    """A kernel, and the outputs that it has sent."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self._manager = KernelManager(kernel_name="python3")
        free = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._manager.start_kernel(cwd=str(folder), env=free | environ)  # without it, ipykernel redirects descriptor 2
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_SECONDS)

    def run(self, code: str, seconds: float = _SECONDS, after: float = 0.0) -> Cell:
        """Run a cell to its end, and listen for some more seconds."""
        request = self._client.execute(code)
        until, messages = time.monotonic() + seconds, []
        while True:
            message = self._client.get_iopub_msg(timeout=max(0.01, until - time.monotonic()))
            if (
                message["parent_header"].get("msg_id") == request
                and message["content"].get("execution_state") == "idle"
            ):
                break
            messages.append(message)
        errors = [each["content"]["traceback"] for each in messages if each["msg_type"] == "error"]
        assert not errors, "\n".join(errors[0])
        return Cell(request, [*messages, *self._later(after)])

    def _later(self, seconds: float) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                yield self._client.get_iopub_msg(timeout=left)
            except Exception:  # nothing more
                return

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
