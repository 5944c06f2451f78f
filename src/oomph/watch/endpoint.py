"""`oomph watch --serve`: takes a view once a second and serves the latest one, so a scrape never waits for a driver.

Each connection has its own thread and ten seconds, so a slow scraper does not delay the others. The server in
prometheus-client does not limit connections or requests, and answers to any host name, so that package is only used to
format the text.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

from oomph import __version__
from oomph.errors import UsageError
from oomph.watch.address import Address, may_be_asked_for
from oomph.watch.exposition import CONTENT_TYPE, exposition
from oomph.watch.signals import ENDING, NotedSignals
from oomph.watch.view import View

_EVERY_SECONDS = 1.0
_SECONDS = 10.0
"""The maximum duration of a connection, in seconds."""
_MOST_CONNECTIONS = 32
_MOST_BYTES = 16384
"""The maximum size of a request (the request line and headers), in bytes."""
_TEXT = "text/plain; charset=utf-8"
_Accepted = tuple[socket.socket, Any]


def serve(address: Address, look: Callable[[], View], say: Callable[[str], None]) -> int:
    """Serve until a signal arrives, and return 128 plus its number. Raises UsageError if the address cannot be used."""
    server = Server(address, lambda: exposition(seen))
    seen = look()
    server.start()
    say(f"serving http://{server.address}/metrics until Ctrl-C")
    try:
        with NotedSignals() as signals:
            while True:
                select.select([signals.fd], [], [], _EVERY_SECONDS)
                ended = next((number for number in signals.taken() if number in ENDING), None)
                if ended is not None:
                    return 128 + ended
                seen = look()
    finally:
        server.close()


def _advice(error: OSError) -> str:
    """Suggest a different port if the port is why the address cannot be used; empty otherwise."""
    if error.errno == errno.EADDRINUSE:
        return "; choose another port, or 0 for a free one"
    return "; choose port 1024 or higher" if error.errno == errno.EACCES else ""


class Server(ThreadingHTTPServer):
    """Serves text at /metrics. Raises UsageError if the address cannot be used."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: Address, text: Callable[[], str]) -> None:
        self.text = text
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
        threading.Thread(target=self.serve_forever, name="oomph watch --serve", daemon=True).start()

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
        """Ignore scrapers that disconnect early."""


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
        """Answer a scrape."""
        hosts = self.headers.get_all("Host", [""])
        if self._lines.left <= 0:
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TEXT, "the request is too long\n")
        elif len(hosts) > 1 or not may_be_asked_for(hosts[0], self.server.address.host, socket.gethostname()):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, "use this machine's IP address or name\n")
        elif self.path.partition("?")[0] == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, self.server.text())
        elif self.path == "/":
            self._answer(HTTPStatus.OK, _TEXT, "oomph watch: the metrics are at /metrics\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, "the metrics are at /metrics\n")

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
        """Log nothing, since a scrape every few seconds would fill the terminal."""
