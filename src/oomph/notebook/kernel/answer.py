"""Answers, in a new kernel, the requests that the death of the kernel before it left open."""

from __future__ import annotations

import time
from typing import Any

from oomph.notebook.kernel.death import Death
from oomph.notebook.kernel.record import ExecuteRequest

_RETRY_SECONDS = 0.05
_LONGEST_SECONDS = 10.0
"""How long to try to reach a client that has not connected again."""
RECONNECTED_SECONDS = 0.3
"""The time in which the client's sockets, which try at least five times a second, have connected to a new kernel.

Outputs that are published before the client has subscribed to them are lost, and with them the sign that a cell is
over. A kernel that replaces a dead one therefore waits before it takes requests.
"""


class DeathAnswer:
    """Gives the cell that died an error with the diagnosis, and aborts those that waited behind it.

    Args:
        kernel: ipykernel's kernel.
        death: the death to answer for.
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

    def begin(self) -> None:
        """DeathAnswer as soon as the client has connected again, in the thread that owns the shell's socket."""
        if self._unsent:
            self._loop.add_callback(self._reply, time.monotonic() + _LONGEST_SECONDS)

    def tell_under(self, message: Any) -> None:
        """Tell the diagnosis under another cell, because none was running."""
        self._publish("stream", {"name": "stderr", "text": "\n".join(self._death.lines) + "\n"}, message)

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
        self._show()

    def _show(self) -> None:
        """Publish the error under the cell that died, and that nothing is busy any more."""
        running = self._death.running
        if running is not None:
            self._publish("error", self._error, _parent(running))
        for each in (*([] if running is None else [running]), *self._death.queued):
            self._publish("status", {"execution_state": "idle"}, _parent(each))
        if getattr(self._kernel, "shell_channel_thread", None) is None:
            # ipykernel 6 keeps waiting requests inside its socket, where nobody can record them: drop them all.
            self._publish("status", {"execution_state": "restarting"}, None)

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
            stream.flush()  # a raw send may have swallowed the sign that requests wait

    def _publish(self, kind: str, content: dict[str, Any], parent: Any) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.{kind}".encode()
        kernel.session.send(kernel.iopub_socket, kind, content, parent=parent, ident=topic)


def _parent(request: ExecuteRequest) -> dict[str, Any]:
    return {"header": dict(request.header)}
