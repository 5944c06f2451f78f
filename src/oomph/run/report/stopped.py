"""The cause of a run's stop, in words, from the decision that ended it. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from oomph.journal.events import Decided
from oomph.journal.journal import Event, last

_BY = {
    signal.SIGINT: "stopped by Ctrl-C (SIGINT)",
    signal.SIGHUP: "stopped by SIGHUP (the terminal was closed)",
    signal.SIGTERM: "stopped by SIGTERM",
}
_SOMEHOW = "stopped from outside"
_SHELL = 128
"""The number that a shell adds to n to report death by signal n."""


def stopped(events: Sequence[Event]) -> str:
    """The words for how the newest attempt was stopped; empty if it ended by itself, was preempted, or has not
    ended."""
    newest = max((event.attempt for event in events), default=0)
    decided = last([event for event in events if event.attempt == newest], Decided)
    return "" if decided is None else _stopped(decided)


def _stopped(decided: Decided) -> str:
    ending, code = decided.ending or {}, decided.exit_code
    if decided.action != "finish" or not code:
        return ""
    if ending.get("called_off"):
        return _by(ending["called_off"])
    if ending.get("interrupted") and (ending.get("stopped") or code == _SHELL + signal.SIGINT):
        return _BY[signal.SIGINT]
    return _by(code - _SHELL) if ending.get("stopped") else ""


def _by(signum: object) -> str:
    return next((words for known, words in _BY.items() if known == signum), _SOMEHOW)
