"""A server of a few texts, which anybody on the network may try to block: connections are few, short and bounded.

Each connection has its own thread and ten seconds, so a slow client does not delay the others.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, NamedTuple

from oomph import __version__
from oomph.errors import UsageError
from oomph.serving.address import Address, may_be_asked_for

_SECONDS = 10.0
"""The maximum duration of a connection, in seconds."""
_MOST_CONNECTIONS = 32
_MOST_BYTES = 16384
"""The maximum size of a request (the request line and headers), in bytes."""
TEXT = "text/plain; charset=utf-8"
_Accepted = tuple[socket.socket, Any]


class Served(NamedTuple):
    """A text that is served, and its type."""

    kind: str
    """The content type."""
    text: Callable[[], str]
    """Returns the text of the moment. Called for each request, in a thread of its own."""


def _advice(error: OSError) -> str:
    """Suggest a different port if the port is why the address cannot be used; empty otherwise."""
    if error.errno == errno.EADDRINUSE:
        return "; choose another port, or 0 for a free one"
    return "; choose port 1024 or higher" if error.errno == errno.EACCES else ""


class Server(ThreadingHTTPServer):
    """Serves texts by their paths. Raises UsageError if the address cannot be used.

    Args:
        address: where to listen.
        texts: maps each path, such as "/metrics", to what is served there.
        elsewhere: the text for all other paths.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: Address, texts: Mapping[str, Served], elsewhere: str) -> None:
        self.texts, self.elsewhere = texts, elsewhere
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
            super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]
        except OSError as error:
            raise UsageError(f"cannot serve at {address}: {error.strerror or error}{_advice(error)}") from error
        except UnicodeError as error:
            raise UsageError(f"cannot serve at {address}: that is not a valid host name") from error
        self.address = Address(address.host, self.server_address[1])
        """The address that the server is bound to, with the actual port."""

    def start(self) -> None:
        """Serve in a thread until `close` is called."""
        threading.Thread(target=self.serve_forever, name="oomph --serve", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()

    def get_request(self) -> _Accepted:
        accepted: _Accepted = super().get_request()
        with self._lock:
            self._open[accepted[0]] = time.monotonic()
        return accepted

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            return len(self._open) <= _MOST_CONNECTIONS

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close overdue connections, so that their threads end immediately. Called twice a second."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, began in self._open.items() if now - began > _SECONDS]
        for connection in late:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was already closed

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early."""


class _Bounded:
    """A request stream that appears to end after `_MOST_BYTES`."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream, self.left = stream, _MOST_BYTES

    def readline(self, most: int = _MOST_BYTES) -> bytes:
        """Return the next line, or as much of it as is still allowed."""
        line = self._stream.readline(min(most, self.left))
        self.left -= len(line)
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _SECONDS
    server_version = f"oomph/{__version__}"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self._lines = _Bounded(self.rfile)
        self.rfile = self._lines  # type: ignore[assignment]

    def do_GET(self) -> None:
        """Answer a request."""
        hosts = self.headers.get_all("Host", [""])
        if self._lines.left <= 0:
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TEXT, "the request is too long\n")
        elif len(hosts) > 1 or not may_be_asked_for(hosts[0], self.server.address.host, socket.gethostname()):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, TEXT, "use this machine's IP address or name\n")
        elif (served := self.server.texts.get(self.path.partition("?")[0])) is not None:
            self._answer(HTTPStatus.OK, served.kind, served.text())
        else:
            self._answer(HTTPStatus.NOT_FOUND, TEXT, f"{self.server.elsewhere}\n")

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since a request every few seconds would fill the terminal."""
