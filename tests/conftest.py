"""The assumptions that every test makes about its process."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

# How long an example takes depends on the machine, not on the code. `make test` tries the same examples each time, so
# that it fails only because of changes; `make test-all` and the hostile lane look for new ones.
settings.register_profile("same examples", deadline=None, derandomize=True, database=None)
settings.register_profile("new examples", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same examples"))


def pytest_configure() -> None:
    """A background process may ignore Ctrl-C and hang-ups, and anything that the tests start would inherit this."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> None:
    """Exclude what earlier modules left from garbage collection: TensorFlow's graphs make a collection take seconds.

    oomph collects garbage after each out-of-memory error, which occurs only a few times in a script's process.
    """
    gc.collect()
    gc.freeze()
