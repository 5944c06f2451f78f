"""The address of `--serve`: [HOST:]PORT."""

from __future__ import annotations

from typing import NamedTuple

from oomph.errors import UsageError

LOOPBACK = "127.0.0.1"
_LAST_PORT = 65535


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse [HOST:]PORT, where an IPv6 host is in brackets; raises UsageError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"--serve={text}: put the IPv6 address in brackets, as in [::1]:9400")
    if colon and not host:
        raise UsageError(f"--serve={text}: name the host before the colon, or leave the colon out for {LOOPBACK}")
    if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        raise UsageError(f"--serve={text}: the port must be a number from 0 to {_LAST_PORT}; 0 chooses a free one")
    return Address(host or LOOPBACK, int(port))
