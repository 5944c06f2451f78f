"""Answers, in a new kernel, the requests that the kernel before it left open when it died."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomph.notebook.kernel.death import Death
from oomph.notebook.kernel.record import ExecuteRequest

_RETRY_SECONDS = 0.05
_LONGEST_SECONDS = 10.0
"""The longest time to keep trying to reach a client that has not reconnected."""
_SUBSCRIBER_SECONDS = 1.0
"""The longest time to wait for a client to connect to the outputs. Its sockets try at least five times a second."""
_SUBSCRIPTION_SECONDS = 0.3
"""The time from a connection to the outputs until its subscription arrives, even on a busy machine."""
_BLOCKING_SECONDS = 0.2
"""The time from a reply to its outputs, for clients that look for outputs, and thereby subscribe, only after it."""
_ESTABLISHED = "01"


def wait_for_subscriber(port: int) -> None:
    """Wait up to a second for a client to reconnect to the port of the outputs, and briefly for its subscription.

    Outputs published before the client has subscribed to them are lost, and so is the sign that a cell is over. So a
    kernel that replaces a dead one takes no requests until then.
    """
    until = time.monotonic() + _SUBSCRIBER_SECONDS
    while time.monotonic() < until and not _is_connected(port):
        time.sleep(_RETRY_SECONDS)
    time.sleep(_SUBSCRIPTION_SECONDS)


def _is_connected(port: int) -> bool:
    """True if there is a TCP connection to this local port (proc(5), /proc/net/tcp)."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


class DeathAnswer:
    """Fails the cell in which the kernel died, with the diagnosis, and aborts the cells that waited behind it.

    Args:
        kernel: ipykernel's kernel.
        death: the death to report.
    """

    def __init__(self, kernel: Any, death: Death) -> None:
        self._kernel, self._death = kernel, death
        self._error = {"ename": "KernelDied", "evalue": death.lines[0], "traceback": list(death.lines)}
        self._unsent: list[tuple[ExecuteRequest, dict[str, Any]]] = [
            (each, {"status": "aborted"}) for each in death.queued
        ]
        if death.running is not None:
            failed = {"status": "error", "execution_count": death.running.count, **self._error}
            self._unsent.insert(0, (death.running, failed))

    @property
    def is_seen(self) -> bool:
        """True if the user will see the answer: a cell was running, rather than just a silent request of the client."""
        return self._death.running is not None and self._death.running.count > 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The diagnosis."""
        return self._death.lines

    def begin(self) -> None:
        """Answer as soon as the client has reconnected, in the thread that owns the shell's socket."""
        if self._unsent:
            self._loop.add_callback(self._reply, time.monotonic() + _LONGEST_SECONDS)

    @property
    def _loop(self) -> Any:
        return self._kernel.shell_stream.io_loop

    def _reply(self, until: float) -> None:
        """Send the replies, or try again later if the client is not connected yet."""
        try:
            while self._unsent:
                self._send(*self._unsent[0])
                del self._unsent[0]
        except ConnectionError:
            if time.monotonic() < until:
                self._loop.call_later(_RETRY_SECONDS, self._reply, until)
                return
        self._loop.call_later(_BLOCKING_SECONDS, self._show)

    def _show(self) -> None:
        """Publish the error under the cell in which the kernel died, and mark all open requests as idle."""
        running = self._death.running
        if running is not None:
            _publish(self._kernel, "error", self._error, _parent(running))
        for each in (*([] if running is None else [running]), *self._death.queued):
            _publish(self._kernel, "status", {"execution_state": "idle"}, _parent(each))
        if getattr(self._kernel, "shell_channel_thread", None) is None:
            # ipykernel 6 keeps waiting requests inside its socket, where nobody can record them. The client drops them.
            _publish(self._kernel, "status", {"execution_state": "restarting"}, None)

    def _send(self, request: ExecuteRequest, content: dict[str, Any]) -> None:
        """Send a reply. Raises ConnectionError if the client is not connected."""
        import zmq

        stream = self._kernel.shell_stream
        stream.socket.router_mandatory = 1  # otherwise, a reply to nobody would be dropped silently
        try:
            identities = [bytes.fromhex(each) for each in request.identities]
            self._kernel.session.send(stream.socket, "execute_reply", content, _parent(request), ident=identities)
        except zmq.ZMQError as error:
            raise ConnectionError(str(error)) from error
        finally:
            stream.socket.router_mandatory = 0
            stream.flush()  # a raw send may have swallowed the event that announces waiting requests


def tell_under(kernel: Any, lines: Sequence[str], message: Any) -> None:
    """Show a diagnosis under the cell of a request, since no cell could show it when the kernel died."""
    _publish(kernel, "stream", {"name": "stderr", "text": "\n".join(lines) + "\n"}, message)


def _publish(kernel: Any, kind: str, content: dict[str, Any], parent: Any) -> None:
    topic = f"kernel.{kernel.ident}.{kind}".encode()
    kernel.session.send(kernel.iopub_socket, kind, content, parent=parent, ident=topic)


def _parent(request: ExecuteRequest) -> dict[str, Any]:
    return {"header": dict(request.header)}
