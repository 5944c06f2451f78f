"""What the attempt that finished a run has trained of each fit."""

from __future__ import annotations

from oomph.journal.journal import Event
from oomph.run.report.attempts import interrupted, reached


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
        event(2, "checkpoint", fit=5, steps=70),  # a loop that the script leaves by `break`
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
