"""`oomph watch --serve`: its address, and scrapers that are slow, rude or numerous."""

from __future__ import annotations

import errno
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from oomph.errors import UsageError
from oomph.serving import server as serving
from oomph.serving.address import Address, address, may_be_asked_for
from oomph.serving.server import Server
from oomph.watch.endpoint import server_of

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(name="server")
def _server() -> Iterator[Server]:
    server = server_of(Address("127.0.0.1", 0), lambda: "oomph_x 1\n")
    server.start()
    yield server
    server.close()


def get(server: Server, path: str = "/metrics") -> tuple[int, str, str]:
    try:
        with _DIRECTLY.open(f"http://{server.address}{path}", timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", error.read().decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9400", Address("127.0.0.1", 9400)),
        ("0.0.0.0:9400", Address("0.0.0.0", 9400)),
        ("[::1]:9400", Address("::1", 9400)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_a_serve_address_is_parsed(text, expected):
    assert address(text) == expected
    assert text in ("9400", str(expected))


@pytest.mark.parametrize("text", ["", "x", "-1", "65536", ":9400", "host:", "::1:9400", "1.5", "٣", "9" * 5000])
def test_an_invalid_address_is_rejected_with_a_one_line_error(text):
    with pytest.raises(UsageError, match="--serve=") as error:
        address(text)
    assert "\n" not in str(error.value)


def test_a_scrape_returns_the_metrics(server):
    assert get(server) == (200, "text/plain; version=0.0.4; charset=utf-8", "oomph_x 1\n")
    assert get(server, "/metrics?x=1")[0] == 200
    assert get(server, "/")[0] == 200
    assert get(server, "/other") == (404, "", "the metrics are at /metrics\n")


def test_a_port_in_use_is_reported_with_its_address(server):
    with pytest.raises(UsageError, match=r"cannot serve at 127\.0\.0\.1:\d+: Address already in use"):
        server_of(server.address, str)


def test_a_port_reserved_for_root_is_reported_with_a_remedy(monkeypatch):
    def refused(self):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Server, "server_bind", refused)
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:80: Permission denied; choose port 1024 or higher$"):
        server_of(Address("127.0.0.1", 80), str)


def test_an_unknown_host_is_reported_by_name():
    with pytest.raises(UsageError, match=r"cannot serve at no\.such\.host\.invalid:9400: "):
        server_of(Address("no.such.host.invalid", 9400), str)


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "é" * 70])
def test_an_invalid_host_name_is_reported_as_such(host):
    with pytest.raises(UsageError, match=r"cannot serve at .*: that is not a valid host name$"):
        server_of(Address(host, 9400), str)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:9400", True),
        ("10.1.2.3", True),
        ("[::1]:9400", True),
        ("localhost:9400", True),
        ("LOCALHOST.", True),
        ("gpu7:9400", True),
        ("gpu7.cluster:9400", True),
        ("served.example:9400", True),
        ("", True),
        ("evil.example", False),
        ("evil.example:9400", False),
        ("gpu7.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("[evil.example]", False),
    ],
)
def test_only_requests_whose_host_header_matches_this_machine_are_allowed(host, allowed):
    assert may_be_asked_for(host, "served.example", "gpu7.cluster") is allowed


def ask(server: Server, request: bytes) -> bytes:
    with socket.create_connection(server.server_address[:2], timeout=5) as client:
        client.sendall(request)
        try:
            return client.recv(1000)
        except ConnectionResetError:
            return b""


def test_a_dns_rebinding_request_is_rejected(server):
    answer = ask(server, b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 421 ")
    assert b"oomph_x" not in answer
    twice = ask(server, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert twice.startswith(b"HTTP/1.0 421 ")
    assert ask(server, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")


LINE = b"GET /metrics HTTP/1.1\r\n"


@pytest.mark.parametrize(
    "request_", [b"GET /" + b"a" * 20000, LINE + b"X: " + b"a" * 20000, LINE + b"X: y\r\n" * 90 + b"Y: " + b"z" * 16000]
)
def test_endless_request_is_cut_off(server, request_):
    assert b" 200 " not in ask(server, request_ + b"\r\n\r\n")
    assert get(server)[0] == 200


def test_half_open_connections_do_not_block_a_scrape(server):
    silent = [socket.create_connection(server.server_address[:2]) for _ in range(10)]
    silent[0].sendall(b"GET /metr")
    assert get(server)[0] == 200
    for each in silent:
        each.close()


def test_a_scraper_that_takes_too_long_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(serving, "_SECONDS", 0.0)
    with socket.create_connection(server.server_address[:2], timeout=5) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert slow.recv(1) == b""
    while server._open:
        time.sleep(0.01)


def test_connections_over_the_limit_are_refused_until_others_close(server, monkeypatch):
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 2)
    first, second, third = (socket.create_connection(server.server_address[:2], timeout=5) for _ in range(3))
    assert third.recv(1) == b""
    for each in (first, second, third):
        each.close()
    while server._open:
        time.sleep(0.01)
    assert get(server)[0] == 200


def test_aborted_scrape_prints_nothing_to_the_terminal(server, capfd):
    for _ in range(3):
        with socket.create_connection(server.server_address[:2]) as rude:
            rude.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert get(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_the_server_stops_while_a_client_is_connected():
    server = server_of(Address("127.0.0.1", 0), str)
    server.start()
    with socket.create_connection(server.server_address[:2]):
        ended = threading.Thread(target=server.close)
        ended.start()
        ended.join(5)
        assert not ended.is_alive()
