"""A run's journal: what its writers leave behind when killed, and what a reader makes of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest

from oomph.errors import RunDirectoryError
from oomph.explain.reading.run import what_is_missing
from oomph.files.opening import read_own
from oomph.journal import journal_reader
from oomph.journal.event import event_of
from oomph.journal.events import AttemptEnded, FitFinished, GpuMemoryHeld
from oomph.journal.journal import Event, Journal, read_journal, refuse_later, unreadable_lines
from oomph.journal.journal_reader import JournalReader

real = journal_reader._events_of


def write_lines(run, name, *lines):
    (run / "journal").mkdir(exist_ok=True)
    (run / "journal" / name).write_text("".join(lines))


def line(name, time, attempt=1, role="script", sequence=1, **data):
    return Event.named(name, data, attempt, 0, role, sequence, time).to_json() + "\n"


def test_written_event_is_read_back(tmp_path):
    journal = Journal(tmp_path, 2, "script", rank=1)
    journal.write(FitFinished(fit=0, steps=3, loss=float("nan")))
    journal.close()
    (event,) = read_journal(tmp_path)
    assert (event.name, event.attempt, event.rank, event.role, event.sequence) == ("fit-finished", 2, 1, "script", 1)
    assert (event.fact.fit, event.fact.steps, event.fact.state) == (0, 3, None)
    assert math.isnan(event.fact.loss)
    (written,) = (tmp_path / "journal").glob("*")
    assert '"loss":"nan"' in written.read_text()


def test_partial_line_does_not_swallow_the_next_one(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("first", 1.0), line("second", 2.0)[:30])
    journal = Journal(tmp_path, 1, "script")
    journal.write(GpuMemoryHeld())
    journal.close()
    assert [event.name for event in read_journal(tmp_path)] == ["first", "gpu-memory-held"]
    assert unreadable_lines(tmp_path) == 1


def test_clock_set_back_does_not_change_the_order(tmp_path):
    write_lines(
        tmp_path, "1-0-script.jsonl", line("a", 100.0), line("b", 50.0, sequence=2), line("c", 60.0, sequence=3)
    )
    write_lines(tmp_path, "1-0-supervisor.jsonl", line("between", 55.0, role="supervisor"), line("after", 101.0))
    assert [event.name for event in read_journal(tmp_path)] == ["between", "a", "b", "c", "after"]


def test_attempts_stay_in_order_despite_a_clock_set_back(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("first", 100.0))
    write_lines(tmp_path, "2-0-script.jsonl", line("second", 5.0, attempt=2))
    assert [event.name for event in read_journal(tmp_path)] == ["first", "second"]
    assert [event.name for event in read_journal(tmp_path, attempt=2)] == ["second"]


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": "1"},
        {"attempt": 2**70},
        {"time": float("inf")},
        {"time": None},
        {"event": 5},
        {"data": []},
        {"sequence": True},
        {"schema": 2},
    ],
)
def test_line_that_is_not_an_event_is_skipped(tmp_path, change):
    document = {**json.loads(line("x", 1.0)), **change}
    write_lines(tmp_path, "1-0-script.jsonl", json.dumps(document) + "\n", line("sound", 2.0))
    assert [event.name for event in read_journal(tmp_path)] == ["sound"]


def test_damaged_event_keeps_its_intact_fields(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("attempt-ended", 1.0, steps=[5], saved=3))
    assert [event.fact for event in read_journal(tmp_path)] == [AttemptEnded(saved=3)]


# -- read as a stream, and read again ---------------------------------------------------------------------------------


def names(events):
    return [event.name for event in events]


def test_second_read_parses_only_new_lines(tmp_path, monkeypatch):
    file = tmp_path / "journal" / "1-0-script.jsonl"
    write_lines(tmp_path, file.name, line("a", 1.0), "damaged\n", line("b", 2.0))
    reader = JournalReader(tmp_path)
    first = reader.read()
    assert names(first) == ["a", "b"]
    assert reader.read() is first
    parsed = []
    monkeypatch.setattr(journal_reader, "_events_of", lambda lines, shared: parsed.append(lines) or real(lines, shared))
    with file.open("a") as more:
        more.write(line("c", 3.0))
    write_lines(tmp_path, "1-0-worker7.jsonl", line("between", 1.5))
    assert names(reader.read()) == ["a", "between", "b", "c"]
    assert [len(lines) for lines in parsed] == [1, 1]
    assert reader.unreadable_lines() == 1


def test_line_written_in_two_parts_becomes_one_event(tmp_path):
    file = tmp_path / "journal" / "1-0-script.jsonl"
    whole = line("b", 2.0)
    write_lines(tmp_path, file.name, line("a", 1.0), whole[:30])
    reader = JournalReader(tmp_path)
    assert names(reader.read()) == ["a"]
    for part, expected in ((whole[30:-1], ["a", "b"]), ("\n", ["a", "b"]), (line("c", 3.0), ["a", "b", "c"])):
        with file.open("a") as more:
            more.write(part)
        assert names(reader.read()) == expected
    assert reader.unreadable_lines() == 0


def test_rewritten_or_removed_file_is_read_from_the_beginning(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("a", 1.0), line("b", 2.0))
    reader = JournalReader(tmp_path)
    assert names(reader.read()) == ["a", "b"]
    write_lines(tmp_path, "1-0-script.jsonl", line("z", 1.0))
    assert names(reader.read()) == ["z"]
    (tmp_path / "journal" / "1-0-script.jsonl").unlink()
    assert names(reader.read()) == []
    assert reader.unreadable_lines() == 0


def test_json_split_across_two_lines_is_rejected(tmp_path):
    whole = line("a", 1.0)
    at = whole.index(',"attempt"')
    write_lines(tmp_path, "1-0-script.jsonl", whole[:at] + "\n", whole[at + 1 :], line("b", 2.0), "[]\n", "{}\n")
    assert names(read_journal(tmp_path)) == ["b"]
    assert unreadable_lines(tmp_path) == 4


def test_open_reader_is_shared_by_all_readers_of_its_journal(tmp_path, monkeypatch):
    write_lines(tmp_path, "1-0-script.jsonl", line("a", 1.0))
    write_lines(tmp_path, "2-0-script.jsonl", line("b", 2.0, attempt=2), "damaged\n")
    with JournalReader(tmp_path) as reader:
        assert read_journal(tmp_path) is reader.read()
        assert names(read_journal(tmp_path, 2)) == ["b"]
        assert unreadable_lines(tmp_path) == 1
    assert read_journal(tmp_path) is not reader.read()


def test_long_journal_is_read_quickly_and_with_little_memory(tmp_path):
    data = {"fit": 1, "epoch": 9, "bytes": 3179673, "seconds": 0.0258, "iterator": "saved"}
    (tmp_path / "journal").mkdir()
    with (tmp_path / "journal" / "1-0-script.jsonl").open("w") as file:
        for number in range(50_000):
            file.write(line("checkpoint", float(number), sequence=number, step=number, **data))
    size = (tmp_path / "journal" / "1-0-script.jsonl").stat().st_size
    code = (
        "import resource, sys; from pathlib import Path; from oomph.journal.journal import read_journal\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF)\n"
        "before = used(); events = read_journal(Path(sys.argv[1])); after = used()\n"
        "print(len(events), after.ru_utime - before.ru_utime, (after.ru_maxrss - before.ru_maxrss) * 1024)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60, check=True
    )
    count, seconds, memory = map(float, ended.stdout.split())
    assert count == 50_000
    assert seconds < 2  # 0.4; before, a read took 3, and `oomph explain` four of them
    assert memory < 3 * size  # 2 times; as dicts, 8 times


def test_sparse_journal_file_is_read_with_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.journal.journal_reader._LONGEST", 1 << 20)
    write_lines(tmp_path, "1-0-script.jsonl", line("one", 1.0))
    path = tmp_path / "journal" / "1-0-script.jsonl"
    os.truncate(path, 1 << 40)
    assert names(read_journal(tmp_path)) == ["one"]
    assert unreadable_lines(tmp_path) == 1


@pytest.mark.parametrize("name", ["run.json", "summary.json", "micro_batch.json"])
def test_oversized_sparse_file_in_a_run_is_rejected(tmp_path, name):
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 1 << 40)
    with pytest.raises(OSError, match="larger than expected"):
        read_own(tmp_path, name)


def test_events_planted_before_an_attempt_are_ignored(tmp_path):
    """An attacker who plants a run directory could claim that its steps were compared."""
    write_lines(tmp_path, "1-0-script.jsonl", line("one", 1.0), line("planted", 2.0, attempt=2))
    for name in ("2-0-script.jsonl", "02-0-script.jsonl", "3-1-script.jsonl", "x-0-script.jsonl"):
        write_lines(tmp_path, name, line("planted", 2.0, attempt=2), line("planted", 2.0, attempt=3))
    refuse_later(tmp_path, 2)
    Journal(tmp_path, 2, "script").write(GpuMemoryHeld())
    assert names(read_journal(tmp_path)) == ["one", "gpu-memory-held"]
    assert names(read_journal(tmp_path, 2)) == ["gpu-memory-held"]


@pytest.mark.parametrize("name", [f"2-{'x' * 240}.jsonl", "2-0-script.jsonl"])
def test_planted_journal_that_cannot_be_renamed_is_rejected(tmp_path, name):
    write_lines(tmp_path, name, line("planted", 2.0, attempt=2))
    if len(name) < 100:
        (tmp_path / "journal" / f"{name}.refused").mkdir()
    with pytest.raises(RunDirectoryError, match=r"^2-.* does not belong to this run, and cannot be renamed"):
        refuse_later(tmp_path, 2)


def test_journal_line_with_half_a_million_json_values_is_rejected(tmp_path):
    planted = line("e", 1.0, zz=[]).replace("[]", "[" + "{}," * (1 << 19) + "0]")
    write_lines(tmp_path, "1-0-script.jsonl", line("a", 0.5), planted, line("b", 2.0))
    assert names(read_journal(tmp_path)) == ["a", "b"]
    assert unreadable_lines(tmp_path) == 1


def test_journal_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_reader, "MOST_KEPT", 1 << 20)
    many = [line("e", float(n), ledger={str(each): {} for each in range(50)}, sequence=n) for n in range(2000)]
    write_lines(tmp_path, "1-0-script.jsonl", *many)
    reader = JournalReader(tmp_path)
    assert 50 < len(reader.read()) < 400
    assert len(reader.read()) + reader.left_out() == 2000
    assert reader.unreadable_lines() == 0
    assert "lines of the journal" in what_is_missing(tmp_path)
    write_lines(tmp_path, "1-0-script.jsonl", many[0])  # rewritten
    assert len(reader.read()) == 1
    assert reader.left_out() == 0


def test_repeated_long_strings_are_stored_once(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", *(line("oom", float(n), message="x" * 500) for n in range(2)))
    first, second = (event.fact.message for event in read_journal(tmp_path))
    assert first is second


def test_reader_of_the_newest_events_keeps_findings_of_any_age(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_reader, "_NEWEST_BYTES", 100_000)
    monkeypatch.setattr(journal_reader, "_NEWEST_EVENTS", 200)
    old = [line("finding", 1.0, fault="nan-loss", subject="loss"), "damaged\n", line("finding-ended", 2.0)]
    write_lines(tmp_path, "1-0-script.jsonl", *old, *(line("e", float(n), sequence=n) for n in range(3, 5003)))
    reader = JournalReader(tmp_path, newest=True)
    found = reader.read()
    assert names(found)[:3] == ["finding", "finding-ended", "e"]
    assert found[-1].time == 5002
    assert 200 < len(found) < 1500
    with (tmp_path / "journal" / "1-0-script.jsonl").open("a") as more:
        more.writelines(line("e", float(n), sequence=n) for n in range(5003, 9003))
    later = reader.read()
    assert (names(later)[:2], later[-1].time, len(later)) == (["finding", "finding-ended"], 9002, 202)


def test_if_memory_does_not_suffice_the_largest_file_is_cut_and_not_the_supervisors(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_reader, "MOST_KEPT", 1 << 17)
    write_lines(tmp_path, "1-0-script.jsonl", *(line("e", float(n), sequence=n, x="y" * 400) for n in range(2000)))
    write_lines(tmp_path, "1-0-supervisor.jsonl", line("run-ended", 9999.0))
    assert names(read_journal(tmp_path))[-1] == "run-ended"


def test_reader_of_some_kinds_parses_no_other_lines_and_no_other_roles(tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr(
        journal_reader, "event_of", lambda document: parsed.append(document["event"]) or event_of(document)
    )
    write_lines(
        tmp_path, "1-0-supervisor.jsonl", line("machine", 1.0), line("attempt-ended", 2.0), line("decided", 3.0)
    )
    write_lines(tmp_path, "1-0-script.jsonl", line("attempt-ended", 4.0))
    reader = JournalReader(tmp_path, kinds=(AttemptEnded,), role="supervisor")
    assert [event.time for event in reader.read()] == [2.0]
    assert parsed == ["attempt-ended"]
    assert reader.left_out() == 0


def test_reader_of_some_kinds_leaves_the_largest_files_out(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_reader, "_MOST_OF_SOME", 10_000)
    for attempt, lines in ((1, 200), (2, 1), (3, 1)):
        events = (line("attempt-ended", float(n), attempt=attempt) for n in range(lines))
        write_lines(tmp_path, f"{attempt}-0-supervisor.jsonl", *events)
    reader = JournalReader(tmp_path, kinds=(AttemptEnded,))
    assert [event.attempt for event in reader.read()] == [2, 3]
    assert reader.left_out() == 1
