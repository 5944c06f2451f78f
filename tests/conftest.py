"""What every test takes for granted of the process that it runs in."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

# How long one example takes is the machine's, not the code's. `make test` tries the same examples each time, so that it
# fails only for what has changed; `make test-all` and the hostile lane look for new ones.
settings.register_profile("same examples", deadline=None, derandomize=True, database=None)
settings.register_profile("new examples", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same examples"))


def pytest_configure() -> None:
    """A process of the background may ignore Ctrl-C and hang-ups, and whatever the tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> None:
    """Take what earlier modules left out of garbage collection: TensorFlow's graphs make a collection take seconds.

    oomph collects after each out-of-memory error, which in a process of a script happens a few times.
    """
    gc.collect()
    gc.freeze()
