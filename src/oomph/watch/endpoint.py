"""`oomph watch --serve`: looks once a second, and serves the last look; a scrape never waits for a driver."""

from __future__ import annotations

import select
from collections.abc import Callable

from oomph.watch.address import Address
from oomph.watch.exposition import exposition
from oomph.watch.server import Server
from oomph.watch.signals import ENDING, Signals
from oomph.watch.view import View

_EVERY_SECONDS = 1.0


def serve(address: Address, look: Callable[[], View], say: Callable[[str], None]) -> int:
    """Serve until a signal ends it; returns 128 + its number, 0 for Ctrl-C. Raises UsageError."""
    server = Server(address, lambda: exposition(seen))
    seen = look()
    server.start()
    say(f"serving http://{server.address}/metrics until Ctrl-C")
    try:
        with Signals() as signals:
            while True:
                select.select([signals.fd], [], [], _EVERY_SECONDS)
                ended = next((number for number in signals.taken() if number in ENDING), None)
                if ended is not None:
                    return 128 + ended
                seen = look()
    finally:
        server.close()
