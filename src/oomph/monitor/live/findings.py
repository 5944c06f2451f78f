"""Provides the findings about a training run, from its sampler or from `oomph run`, and passes them on as alerts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from oomph.journal.events import FindingMade
from oomph.journal.journal import facts, read_journal
from oomph.monitor.finding import (
    EndsToTell,
    Finding,
    FindingChanges,
    as_data,
    end_in_words,
    finding_recorded,
    in_words,
    without_a_run,
)
from oomph.monitor.webhook import Webhook


class Findings(Protocol):
    """The interface of a source of findings, implemented by `SamplerProcess`."""

    problem: str

    def changes(self) -> FindingChanges:
        """Return the findings made and ended since the last call."""

    def close(self) -> None:
        """Close the source."""


class OfTheRun:
    """Reads the findings of the `oomph run` monitor from the run's journal, ignoring those made earlier."""

    problem = ""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._state: object = None
        self._taken = 0
        self._taken = len(self._events())

    def changes(self) -> FindingChanges:
        """Return the findings made since the last call. The run itself prints their ends."""
        events = self._events()
        new, self._taken = events[self._taken :], max(self._taken, len(events))
        return FindingChanges(tuple(finding for event in new if (finding := finding_recorded(event)) is not None))

    def close(self) -> None:
        """Do nothing: the journal needs no closing."""

    def _events(self) -> list[FindingMade]:
        state = [_state(path) for path in sorted((self._run_dir / "journal").glob("*-supervisor.jsonl"))]
        if state == self._state:
            return []  # nothing has been written since
        self._state = state
        return [each for each in facts(read_journal(self._run_dir), FindingMade) if not each.again]


def _state(path: Path) -> tuple[str, int]:
    try:
        return path.name, path.stat().st_size
    except OSError:
        return path.name, 0


class Alerts:
    """Passes findings on. Failures are reported once and never affect the training.

    Args:
        say: a function that prints a line.
        prints: True to print findings; under `oomph run`, the run prints them.
        alert: the function supplied by the user, or None.
        webhook: the web address supplied by the user, or None.
        under_run: True under `oomph run`. If it has no run directory, it does not print findings.
    """

    def __init__(
        self,
        say: Callable[[str], object],
        prints: bool,
        alert: Callable[[Finding], object] | None,
        webhook: str | None,
        under_run: bool = False,
    ) -> None:
        self._say, self._prints, self._alert = say, prints, alert
        self._under_run = under_run or not prints
        self._webhook = None if webhook is None else Webhook(webhook)
        self._told: set[str] = set()
        self._ends = EndsToTell()

    def take(self, changes: FindingChanges) -> None:
        """Pass on the new findings, and print the ends of earlier ones."""
        for finding in changes.told:
            self._pass_on(finding)
        for ended in self._ends.take(changes):
            if self._prints:
                self._say(end_in_words(ended))

    def _pass_on(self, finding: Finding) -> None:
        finding = finding if self._under_run else without_a_run(finding)
        text = in_words(finding)
        if self._prints:
            self._say(text)
        if self._alert is not None:
            try:
                self._alert(finding)
            except Exception as error:
                self._tell_once(f"alert raised {type(error).__name__}: {error}; training continues")
        if self._webhook is not None:
            problem = self._webhook.post({"text": text, **as_data(finding)})
            if problem:
                self._tell_once(f"the webhook at {self._webhook.host} failed: {problem}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)
