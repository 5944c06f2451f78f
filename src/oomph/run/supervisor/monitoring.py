"""Monitors an attempt: starts the sampler alongside the script, then reports and records its findings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from oomph.journal.events import FindingMade, FindingOver
from oomph.monitor import fragmentation
from oomph.monitor.finding import EndsToTell, Finding, FindingChanges, FindingEnded, as_data, end_in_words, in_words
from oomph.monitor.process import SamplerProcess
from oomph.run.supervisor.script_findings import ScriptFindings
from oomph.terminal.console import Voice

_START_SECONDS = 5.0
"""The time to wait, in seconds, before starting the monitor. Scripts that finish sooner don't need one, and importing
TensorFlow needs the CPU."""
_LOOK_SECONDS = 0.5


class Monitoring:
    """Monitors one attempt.

    Args:
        run_dir: the run directory, or None for a run without one, which is not monitored.
        record: appends an event to the journal.
        voice: prints messages for the user.
        on_finding: a function that is called with each new finding.
        of_script: the findings of the script's own processes, which print and record them, or None to pass none on.
    """

    def __init__(
        self,
        run_dir: Path | None,
        record: Callable[..., None],
        voice: Voice,
        on_finding: Callable[[Finding], None] = lambda finding: None,
        of_script: ScriptFindings | None = None,
    ) -> None:
        self._run_dir, self._record, self._voice, self._on_finding = run_dir, record, voice, on_finding
        self._of_script = of_script
        self._sampler: SamplerProcess | None = None
        self._due = time.monotonic() + _START_SECONDS
        self._problems: set[str] = set()
        self._is_fragmented = False
        self._ends = EndsToTell()

    def attend(self, script_pid: int) -> None:
        """Report new findings if a check is due.

        Called in every iteration of the supervisor's loop, but costs nothing until a check is due.
        """
        if self._run_dir is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _LOOK_SECONDS
        if self._sampler is None:
            self._sampler = SamplerProcess(self._run_dir, script_pid)
        self._tell(self._sampler)
        self._pass_on()

    def read_report(self, report: bytes) -> None:
        """Look for fragmentation in a report of a failed allocation that training survived."""
        if self._is_fragmented:
            return
        try:
            finding = fragmentation.of_report(report)
        except Exception:
            return  # an error in oomph must not end the supervisor
        if finding is not None:
            self._is_fragmented = True
            self._found(finding)
            moment = FindingEnded(
                finding.fault, finding.subject, finding.kind, time.time()
            )  # it is unknown whether it lasts
            self._note(FindingChanges(ended=(moment,)))

    def close(self) -> None:
        """Stop the sampler and report its last findings."""
        self._run_dir = None
        if self._sampler is not None:
            self._sampler.close()
            self._tell(self._sampler)
        self._pass_on(at_once=True)

    def _pass_on(self, at_once: bool = False) -> None:
        for finding in () if self._of_script is None else self._of_script.new(at_once):
            self._on_finding(finding)

    def _tell(self, sampler: SamplerProcess) -> None:
        changes = sampler.changes()
        for finding in changes.told:
            self._found(finding)
        self._note(changes)
        for ended in self._ends.take(changes):
            self._voice.say(end_in_words(ended))
        if sampler.problem and sampler.problem not in self._problems:
            self._problems.add(sampler.problem)
            self._voice.say(f"monitor: {sampler.problem}")

    def _found(self, finding: Finding) -> None:
        self._record(FindingMade(**as_data(finding)))
        self._voice.say(in_words(finding))
        self._on_finding(finding)

    def _note(self, changes: FindingChanges) -> None:
        """Record the changes that need no message: findings that recurred or ended."""
        for finding in changes.returned:
            self._record(FindingMade(**as_data(finding), again=True))
        for ended in changes.ended:
            self._record(FindingOver(**asdict(ended)))
