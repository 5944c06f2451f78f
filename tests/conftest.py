"""What every test takes for granted of the process that it runs in."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and whatever the tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
