"""A run's attempts: which steps each one reached, and what stopped the latest."""

from __future__ import annotations

from typing import Any

from oomph.journal.journal import Event
from oomph.run.report.account import account
from oomph.run.report.attempts import interrupted, reached, stopped
from oomph.run.report.summary import summarise


def event(attempt: int, name: str, role: str = "script", **data: object) -> Event:
    return Event.named(name, data, attempt=attempt, role=role)


def test_only_fits_trained_or_returned_by_the_last_attempt_are_counted_as_reached():
    events = [
        event(1, "fit-finished", fit=0, reached=10),
        event(1, "fit-finished", fit=1, reached=20),
        event(2, "resumed", fit=0, kind="finished", steps=10),
        event(2, "resumed", fit=2, kind="exact", steps=25),
        event(2, "fit-finished", fit=2, reached=40),
        event(2, "resumed", fit=3, kind="over", steps=50),
        event(2, "fit-finished", fit=3, reached=60, over=True),
        event(2, "resumed", fit=5, kind="exact", steps=55),
        event(2, "checkpoint", fit=5, steps=70),  # a loop that the script leaves with `break`
        event(2, "fit-finished", role="worker9", fit=4, reached=60),
    ]
    assert reached(events, 2) == {0: 10, 2: 40, 5: 70}


def test_interrupted_training_is_not_counted_as_reached():
    events = [
        event(1, "interrupted", fit=3),
        event(2, "fit-finished", fit=0, reached=10),
        event(2, "checkpoint", fit=1, steps=15),
        event(2, "interrupted", fit=1),
        event(2, "interrupted", fit=2),
        event(2, "fit-finished", fit=2, reached=30),  # resumed by the script itself, in the same process
        event(2, "interrupted", role="worker9", fit=4),
    ]
    assert interrupted(events, 2) == {1}
    assert reached(events, 2) == {0: 10, 2: 30}


def ended(attempt: int, code: int, **ending: Any) -> list[Event]:
    return [
        Event.named("attempt-ended", {"returncode": code, "seconds": 3.0, "steps": 9, "saved": 9}, attempt=attempt),
        Event.named(
            "decided", {"action": "finish", "exit_code": code, "reason": "", "ending": ending}, attempt=attempt
        ),
    ]


def closing(events: list[Event], code: int) -> list[str]:
    return account(summarise(events, code), "run", "again", stopped=stopped(events))


def test_closing_line_says_what_stopped_the_run():
    assert closing(ended(1, 130, stopped=True, interrupted=True), 130)[0].startswith(
        "stopped by Ctrl-C (SIGINT), exit code 130, 9 steps, "
    )
    assert closing(ended(1, 129, stopped=True), 129)[0].startswith(
        "stopped by SIGHUP (the terminal was closed), exit code 129, "
    )


def test_earlier_script_error_is_described_as_text():
    failed = [*ended(1, 1), Event.named("diagnosed", {"fault": "unrelated"}, attempt=1)]
    lines = closing([*failed, *ended(2, 130, stopped=True, interrupted=True)], 130)
    assert lines[0] == "what happened  an error in the script itself once"
    assert any(line.startswith("the end        stopped by Ctrl-C (SIGINT), exit code 130, ") for line in lines)


def test_only_the_latest_attempt_is_reported_as_stopped():
    assert (
        stopped([*ended(1, 130, stopped=True, interrupted=True), Event.named("attempt-started", {}, attempt=2)]) == ""
    )
    assert stopped([]) == ""
    assert stopped([Event.named("decided", {"action": "finish"}, attempt=1)]) == ""
    assert stopped(ended(1, 3, called_off="x")) == "stopped from outside"
    assert stopped(ended(1, 3, called_off=["x"])) == "stopped from outside"
