"""A GPU that the driver has lost. Pure.

Source: NVML answers "GPU is lost" or that it needs a reset. Xid 79 tells the same, and only the first is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("hardware-fault",)
EVERY = 0.0
_REMEDY = "Restart the machine, best by switching it off and on; then check power, temperature and seat of the GPU"
_WORDS = ("lost", "reset", "gone")


def find(window: Window) -> Iterable[Finding]:
    """The GPUs that are gone."""
    for gpu in window.gpus():
        if gpu.problem and any(word in gpu.problem.lower() for word in _WORDS):
            yield Finding(
                "hardware-fault",
                gpu.title,
                f"it no longer answers: {gpu.problem}",
                "critical",
                {"problem": gpu.problem},
                _REMEDY,
                kind="lost",
            )
