"""What every test takes for granted of the process that it runs in."""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # how long one example takes is the machine's, not the code's
settings.load_profile("any machine")


def pytest_configure() -> None:
    """A process of the background may ignore Ctrl-C and hang-ups, and whatever the tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
