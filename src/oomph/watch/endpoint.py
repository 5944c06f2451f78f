"""`oomph watch --serve`: takes a view once a second and serves the latest one, so a scrape never waits for a driver.

The server in prometheus-client does not limit connections or requests, and answers to any host name, so that package is
only used to format the text.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from oomph.serving.address import Address
from oomph.serving.server import TEXT, Served, Server
from oomph.watch.exposition import CONTENT_TYPE, exposition
from oomph.watch.signals import ENDING, NotedSignals
from oomph.watch.view import View

_EVERY_SECONDS = 1.0
_WHERE = "the metrics are at /metrics"


def serve(address: Address, look: Callable[[], View], say: Callable[[str], None]) -> int:
    """Serve until a signal arrives, and return 128 plus its number. Raises UsageError if the address cannot be used."""
    server = server_of(address, lambda: exposition(seen))
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


def server_of(address: Address, text: Callable[[], str]) -> Server:
    """Return a server of the metrics. Raises UsageError if the address cannot be used."""
    texts = {"/metrics": Served(CONTENT_TYPE, text), "/": Served(TEXT, lambda: f"oomph watch: {_WHERE}\n")}
    return Server(address, texts, _WHERE)
