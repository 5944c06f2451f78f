"""Who stopped a run, in its closing lines."""

from __future__ import annotations

from typing import Any

from oomph.journal.journal import Event
from oomph.run.report.account import account
from oomph.run.report.attempts import stopped
from oomph.run.report.summary import summarise


def ended(attempt: int, code: int, **ending: Any) -> list[Event]:
    return [
        Event.named("attempt-ended", {"returncode": code, "seconds": 3.0, "steps": 9, "saved": 9}, attempt=attempt),
        Event.named(
            "decided", {"action": "finish", "exit_code": code, "reason": "", "ending": ending}, attempt=attempt
        ),
    ]


def closing(events: list[Event], code: int) -> list[str]:
    return account(summarise(events, code), "run", "again", stopped=stopped(events))


def test_closing_line_names_what_stopped_the_run():
    assert closing(ended(1, 130, stopped=True, interrupted=True), 130)[0].startswith(
        "stopped by Ctrl-C (SIGINT), exit code 130, 9 steps, "
    )
    assert closing(ended(1, 129, stopped=True), 129)[0].startswith(
        "stopped by SIGHUP (the terminal was closed), exit code 129, "
    )


def test_earlier_error_of_the_script_is_described_in_words():
    failed = [*ended(1, 1), Event.named("diagnosed", {"fault": "unrelated"}, attempt=1)]
    lines = closing([*failed, *ended(2, 130, stopped=True, interrupted=True)], 130)
    assert lines[0] == "what happened  an error of the script's own once"
    assert any(line.startswith("the end        stopped by Ctrl-C (SIGINT), exit code 130, ") for line in lines)


def test_only_the_newest_attempt_is_reported_as_stopped_even_with_damaged_decisions():
    assert (
        stopped([*ended(1, 130, stopped=True, interrupted=True), Event.named("attempt-started", {}, attempt=2)]) == ""
    )
    assert stopped([]) == ""
    assert stopped([Event.named("decided", {"action": "finish"}, attempt=1)]) == ""
    assert stopped(ended(1, 3, called_off="x")) == "stopped from outside"
    assert stopped(ended(1, 3, called_off=["x"])) == "stopped from outside"
