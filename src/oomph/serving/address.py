"""Parses the address given to `--serve` ([HOST:]PORT), and decides which requested hosts to accept."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from oomph.errors import UsageError

LOOPBACK = "127.0.0.1"
_LAST_PORT = 65535
_LONGEST_PORT = 5
_LONGEST_SHOWN = 80


def may_be_asked_for(host: str, served: str, own_name: str) -> bool:
    """True if a request for this host is meant for this server.

    A web page can point its own host name at this machine and read the response (DNS rebinding). The host must
    therefore be an IP address, which does not have to be resolved, or a name of this machine.

    Args:
        host: the Host header; empty if the client did not send one (browsers always do).
        served: the host given to --serve.
        own_name: the name of this machine.
    """
    if host.startswith("["):
        return _is_ip(host[1:].partition("]")[0])
    name = host.partition(":")[0].lower().rstrip(".")
    own = own_name.lower().partition(".")[0]
    return name in ("", "localhost", served.lower(), own_name.lower(), own) or _is_ip(name)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse [HOST:]PORT, where an IPv6 host is in brackets. Raises UsageError if the address is invalid."""
    host, colon, port = text.rpartition(":")
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"--serve={text}: put the IPv6 address in brackets, as in [::1]:9400")
    if colon and not host:
        raise UsageError(f"--serve={text}: put the host before the colon, or omit the colon for {LOOPBACK}")
    if not (port.isascii() and port.isdigit() and len(port) <= _LONGEST_PORT and int(port) <= _LAST_PORT):
        raise UsageError(f"--serve={text}: the port must be a number from 0 to {_LAST_PORT}; 0 chooses a free one")
    return Address(host or LOOPBACK, int(port))
