"""How a running attempt's out-of-memory errors turned out, from what its processes append to their journals."""

from __future__ import annotations

import os

import pytest

from oomph.journal.event import fact_of
from oomph.journal.events import CheckpointSaved, GaveUp, Oom, Recovered
from oomph.journal.journal import Journal
from oomph.run.supervisor import native_reports
from oomph.run.supervisor.native_reports import MemoryOutcome, OutOfMemoryOutcome

AGAIN = {"fault": "device-oom"}


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([], OutOfMemoryOutcome.UNKNOWN),
        ([("fit-started", {})], OutOfMemoryOutcome.UNKNOWN),
        ([("oom", {"phase": "compute"})], OutOfMemoryOutcome.RECOVERING),
        ([("oom", {"phase": "compute"}), ("recovered", {}), ("checkpoint", {})], OutOfMemoryOutcome.RECOVERED),
        ([("oom", {"phase": "commit"}), ("restart-requested", AGAIN)], OutOfMemoryOutcome.RECOVERED),
        ([("oom", {"phase": "compute"}), ("gave-up", AGAIN)], OutOfMemoryOutcome.LEFT),
        ([("oom", {"phase": "elsewhere"})], OutOfMemoryOutcome.LEFT),
        ([("restart-requested", {"fault": "gpu-lost"})], OutOfMemoryOutcome.LEFT),
        ([("recovered", {}), ("oom", {"phase": "compute"})], OutOfMemoryOutcome.RECOVERING),
    ],
)
def test_latest_memory_event_determines_the_outcome(tmp_path, events, outcome):
    journal, memory = Journal(tmp_path, 1, "script"), MemoryOutcome(tmp_path, 1)
    memory.begin()
    for name, data in events:
        journal.write(fact_of(name, data))
    assert memory.now() is outcome
    assert memory.now() is outcome, "read once"


def test_events_before_a_report_do_not_affect_its_outcome(tmp_path):
    journal, memory = Journal(tmp_path, 1, "script"), MemoryOutcome(tmp_path, 1)
    journal.write(Recovered())
    assert memory.now() is OutOfMemoryOutcome.RECOVERED
    memory.begin()
    assert memory.now() is OutOfMemoryOutcome.UNKNOWN
    journal.write(Oom(phase="compute"))
    assert memory.now() is OutOfMemoryOutcome.RECOVERING


def test_recovery_in_one_process_does_not_affect_the_outcome_of_another(tmp_path):
    memory = MemoryOutcome(tmp_path, 1)
    owner, worker = Journal(tmp_path, 1, "script"), Journal(tmp_path, 1, "worker77")
    worker.write(Oom(phase="compute"))
    owner.write(Oom(phase="compute"))
    owner.write(Recovered())
    assert memory.now() is OutOfMemoryOutcome.RECOVERING
    worker.write(GaveUp(fault="device-oom"))
    assert memory.now() is OutOfMemoryOutcome.LEFT


def test_events_from_other_attempts_and_the_supervisor_are_ignored(tmp_path):
    for attempt, role in ((2, "script"), (11, "script"), (1, "supervisor")):
        Journal(tmp_path, attempt, role).write(Recovered())
    assert MemoryOutcome(tmp_path, 1).now() is OutOfMemoryOutcome.UNKNOWN


def test_each_line_of_a_long_journal_is_read_only_once(tmp_path, monkeypatch):
    journal, memory = Journal(tmp_path, 1, "script"), MemoryOutcome(tmp_path, 1)
    for number in range(2000):
        journal.write(CheckpointSaved(step=number))
    memory.begin()
    parsed = []
    events = native_reports._events
    monkeypatch.setattr(native_reports, "_events", lambda line: parsed.append(line) or events(line))
    journal.write(Oom(phase="compute"))
    for _ in range(100):
        assert memory.now() is OutOfMemoryOutcome.RECOVERING
    assert len(parsed) == 1


def test_partial_lines_links_and_pipes_cause_no_errors(tmp_path):
    journal, memory = Journal(tmp_path, 1, "script"), MemoryOutcome(tmp_path, 1)
    path = tmp_path / "journal" / "1-0-script.jsonl"
    os.mkfifo(tmp_path / "journal" / "1-0-worker5.jsonl")
    (tmp_path / "journal" / "1-0-worker6.jsonl").write_bytes(b"\xff[[[\n{}\n")
    journal.write(Oom(phase="compute"))
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert memory.now() is OutOfMemoryOutcome.UNKNOWN
    path.write_bytes(whole)
    assert memory.now() is OutOfMemoryOutcome.RECOVERING
    path.unlink()
    assert memory.now() is OutOfMemoryOutcome.RECOVERING


def test_missing_journal_yields_an_unknown_outcome(tmp_path):
    memory = MemoryOutcome(tmp_path / "missing", 1)
    memory.begin()
    assert memory.now() is OutOfMemoryOutcome.UNKNOWN
