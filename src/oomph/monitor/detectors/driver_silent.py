"""A driver that has stopped answering: a call that does not return, or an NVML that was there and is gone. Pure.

Threshold: the sampler's, 3 s; NVML answers within milliseconds. A machine on which NVML never answered has no finding.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("driver-silent",)
EVERY = 0.0
_SILENT = "no answer"
_REMEDY = (
    "See whether nvidia-smi answers, and what the kernel says (sudo dmesg | grep -iE 'xid|nvrm|blocked'); "
    "processes that wait for the driver end only when the machine restarts"
)


def find(window: Window) -> Iterable[Finding]:
    """The GPU that is waited for, or the driver."""
    sample = window.newest
    silent = [gpu for gpu in sample.gpus if gpu.problem.startswith(_SILENT)]
    for gpu in silent:
        text = f"the driver does not answer: {gpu.problem}"
        yield Finding("driver-silent", gpu.title, text, "critical", {"problem": gpu.problem}, _REMEDY)
    problem = sample.problems.get("nvml", "")
    if problem and not silent and not any(gpu.values for gpu in sample.gpus) and window.has_seen_gpus:
        text = f"it has stopped answering: {problem}"
        yield Finding("driver-silent", "NVIDIA driver", text, "critical", {"problem": problem}, _REMEDY)
