"""A run directory as evidence: what is in it, what may be damaged in it, and how long it may be."""

from __future__ import annotations

import time
from pathlib import Path

from oomph.faults import run
from oomph.journal import Event


def test_ten_thousand_attempts_are_read_in_a_time_that_grows_with_their_number(tmp_path: Path, monkeypatch) -> None:
    ends = range(1, 10_001)
    events = [Event("attempt-ended", {"returncode": -9}, attempt, sequence=1) for attempt in ends]
    monkeypatch.setattr(run, "read_journal", lambda directory: events)
    began = time.process_time()
    facts = list(run.read_run(tmp_path))
    assert time.process_time() - began < 1.5
    assert [fact.origin for fact in facts if fact.source == "exit"] == [f"attempt {attempt}" for attempt in ends]
