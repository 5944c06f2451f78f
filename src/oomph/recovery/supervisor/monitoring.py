"""The monitor of an attempt: starts the sampler beside the script, and tells and records what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomph.console import Voice
from oomph.faults.catalogue.catalogue import find
from oomph.monitor.finding import Finding
from oomph.monitor.process import SamplerProcess

_START_SECONDS = 5.0
"""Scripts that end sooner need no monitor, and TensorFlow's import needs the processor."""
_LOOK_SECONDS = 0.5


class Monitoring:
    """The monitor of one attempt.

    Args:
        run_dir: None for a run without a directory, which is not sampled.
        record: appends an event to the journal.
        voice: tells the user.
    """

    def __init__(self, run_dir: Path | None, record: Callable[..., None], voice: Voice) -> None:
        self._run_dir, self._record, self._voice = run_dir, record, voice
        self._sampler: SamplerProcess | None = None
        self._due = time.monotonic() + _START_SECONDS

    def attend(self, script_pid: int) -> None:
        """One turn of the supervisor's loop; costs nothing until it is due."""
        if self._run_dir is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _LOOK_SECONDS
        if self._sampler is None:
            self._sampler = SamplerProcess(self._run_dir, script_pid)
        self._tell()

    def close(self) -> None:
        """End the sampler, and tell what it found last."""
        self._run_dir = None
        if self._sampler is not None:
            self._sampler.close()
            self._tell()

    def _tell(self) -> None:
        for finding in () if self._sampler is None else self._sampler.findings():
            self._record("finding", **as_event(finding))
            self._voice.say(in_words(finding))


def as_event(finding: Finding) -> dict[str, Any]:
    """The data of the event `finding`."""
    return {
        "fault": finding.fault,
        "subject": finding.subject,
        "kind": finding.kind,
        "message": finding.message,
        "severity": finding.severity,
        "remedy": _remedy(finding),
        "figures": dict(finding.evidence),
    }


def in_words(finding: Finding) -> str:
    """What is wrong, its name, and what to do."""
    page, remedy = find(finding.fault), _remedy(finding)
    name = finding.fault if page is None else f"{page.name}, {page.code}"
    return f"{finding.subject}: {finding.message} ({name})" + (f". {remedy}" if remedy else "")


def _remedy(finding: Finding) -> str:
    """Its own, or the first of its page."""
    page = find(finding.fault)
    if finding.remedy or page is None or not page.remedies:
        return finding.remedy
    return page.remedies[0].filled({}).text
