"""The journal of a run: what its writers leave behind when they are killed, and what a reader makes of that."""

from __future__ import annotations

import json

import pytest

from oomph.journal import Event, Journal, read_journal, unreadable_lines


def write_lines(run, name, *lines):
    (run / "journal").mkdir(exist_ok=True)
    (run / "journal" / name).write_text("".join(lines))


def line(name, time, attempt=1, role="script", sequence=1, **data):
    return Event(name, data, attempt, 0, role, sequence, time).to_json() + "\n"


def test_what_is_written_is_read(tmp_path):
    journal = Journal(tmp_path, 2, "script", rank=1)
    journal.write("fit-started", fit=0, loops=[("train.py", 1, 2)], loss=float("nan"))
    journal.close()
    (event,) = read_journal(tmp_path)
    assert (event.name, event.attempt, event.rank, event.role, event.sequence) == ("fit-started", 2, 1, "script", 1)
    assert event.data == {"fit": 0, "loops": [["train.py", 1, 2]], "loss": "nan"}


def test_the_half_line_of_a_killed_writer_takes_no_other_with_it(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("first", 1.0), line("second", 2.0)[:30])
    journal = Journal(tmp_path, 1, "script")
    journal.write("third")
    journal.close()
    assert [event.name for event in read_journal(tmp_path)] == ["first", "third"]
    assert unreadable_lines(tmp_path) == 1


def test_a_clock_that_is_set_back_changes_no_order(tmp_path):
    write_lines(
        tmp_path, "1-0-script.jsonl", line("a", 100.0), line("b", 50.0, sequence=2), line("c", 60.0, sequence=3)
    )
    write_lines(tmp_path, "1-0-supervisor.jsonl", line("between", 55.0, role="supervisor"), line("after", 101.0))
    assert [event.name for event in read_journal(tmp_path)] == ["between", "a", "b", "c", "after"]


def test_attempts_come_one_after_the_other_whatever_the_clock(tmp_path):
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
def test_a_line_that_is_no_event_is_left_out(tmp_path, change):
    document = {**json.loads(line("x", 1.0)), **change}
    write_lines(tmp_path, "1-0-script.jsonl", json.dumps(document) + "\n", line("sound", 2.0))
    assert [event.name for event in read_journal(tmp_path)] == ["sound"]


def test_of_a_damaged_event_the_rest_is_kept(tmp_path):
    write_lines(tmp_path, "1-0-script.jsonl", line("attempt-ended", 1.0, steps=[5], saved=3))
    assert [event.data for event in read_journal(tmp_path)] == [{"saved": 3}]
