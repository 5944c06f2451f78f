"""Leaves SIGTERM to the script, as it was before a strategy over several processes took it.

TensorFlow's coordination service replaces the handler in C, unseen by Python. Its own only remembers that the signal
came, for a notification that MultiWorkerMirroredStrategy does not use. From then on neither a handler of the script
runs, nor does the process end.

Source: `SigtermNotifier` in xla/tsl/distributed_runtime/preemption/preemption_notifier.cc, made when the strategy
starts the service. This module is loaded while TensorFlow is being imported, so it imports none of it.
"""

from __future__ import annotations

import functools
import signal
from types import ModuleType
from typing import Any

from oomph.keras_bridge.runtime.patching import patch


def install(strategies: ModuleType) -> None:
    """Act in `tensorflow.python.distribute.collective_all_reduce_strategy`, a freshly imported module."""
    cls = strategies.CollectiveAllReduceStrategy
    original = cls.__init__

    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        give_back()

    patch(cls, "__init__", initialize)


def give_back() -> None:
    """Put the handler that Python knows of back in place."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is None:
        return  # it was set in C before Python started
    try:
        signal.signal(signal.SIGTERM, handler)
    except ValueError:
        pass  # not in the main thread
