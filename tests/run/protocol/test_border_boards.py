"""Words of a worker about borders reach the others: in mapped memory at once, in a shared folder within seconds."""

from __future__ import annotations

import os
import signal
import struct
import time

import pytest

from oomph.protocol import border_boards
from oomph.protocol.border_boards import BORDERS, LEAD_SECONDS, MappedBorderBoard, SharedBorderBoard
from oomph.protocol.borders import BorderDecision, Note

DECISION = BorderDecision(300, 200, 310, signal.SIGTERM)


def _seen(value, wanted):
    """True once `value` returns what is wanted, within the time by which borders are announced ahead."""
    until = time.monotonic() + LEAD_SECONDS
    while value() != wanted and time.monotonic() < until:
        time.sleep(0.02)
    return value() == wanted


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """Return a function that opens the board of a worker, for one start or another."""
    monkeypatch.setattr(border_boards, "_LOOK_SECONDS", 0.02)
    opened = []
    (tmp_path / "workers/1").mkdir(parents=True)

    def board(rank, start="first"):
        opened.append(SharedBorderBoard(tmp_path, start, rank, 2))
        return opened[-1]

    yield board
    for each in opened:
        each.close()


def test_record_that_is_being_written_is_not_read(tmp_path):
    board = MappedBorderBoard(tmp_path, 1, 0, 2)
    assert board.decision() is None
    board.announce(DECISION)
    assert board.decision() == DECISION
    with open(tmp_path / BORDERS, "r+b") as written:
        written.seek(struct.calcsize("<q"))
        written.write(b"\x01")  # a part of another number
    assert board.decision() is None


@pytest.mark.parametrize("kind", [MappedBorderBoard, SharedBorderBoard])
def test_planted_link_is_not_written_to(tmp_path, kind):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / BORDERS).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=BORDERS):
        kind(tmp_path, 1 if kind is MappedBorderBoard else "first", 0, 2)
    assert (tmp_path / "mine").read_text() == "precious"


def test_machines_see_what_the_others_say_before_the_border(machines):
    first, other = machines(0), machines(1)
    assert (other.decision(), first.notes()) == (None, [Note(), Note()])
    first.announce(DECISION)
    other.write_note(Note(saved=300, asked=signal.SIGUSR1))
    first.write_note(Note(saved=310))
    assert _seen(other.decision, DECISION)
    assert _seen(first.notes, [Note(saved=310), Note(saved=300, asked=signal.SIGUSR1)])


def test_announcement_of_an_earlier_start_is_ignored_whoever_starts_first(machines):
    """Its first worker has died between announcement and border."""
    first, other = machines(0), machines(1)
    first.announce(DECISION)
    other.write_note(Note(saved=300, asked=signal.SIGTERM))
    assert _seen(other.decision, DECISION)
    assert _seen(lambda: first.notes()[1].saved, 300)
    first.close()
    other.close()
    again = machines(1, "second")
    time.sleep(0.2)
    assert again.decision() is None
    first = machines(0, "second")
    assert first.notes()[1] == Note()
    first.announce(BorderDecision(400))
    assert _seen(again.decision, BorderDecision(400))


def test_each_worker_writes_only_its_own_file(machines, tmp_path):
    first, other = machines(0), machines(1)
    before = (tmp_path / BORDERS).stat().st_ino
    first.announce(DECISION)
    other.write_note(Note(saved=1))
    assert _seen(other.decision, DECISION)
    assert _seen(lambda: first.notes()[1].saved, 1)
    assert (tmp_path / BORDERS).stat().st_ino == before  # written in place: nothing is renamed
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {BORDERS}
    assert len(list(tmp_path.rglob(BORDERS))) == 2


@pytest.mark.parametrize("planted", ["link", "fifo", "folder", "huge", "text", "signal"])
def test_planted_file_is_not_believed(machines, tmp_path, planted):
    other = machines(1)
    path = tmp_path / BORDERS
    match planted:
        case "link":
            (tmp_path / "elsewhere").write_bytes(b"\0" * 48)
            path.symlink_to(tmp_path / "elsewhere")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "huge":
            os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40)
        case "text":
            path.write_text("x" * 48)
        case "signal":
            forged = machines(0)
            forged.announce(DECISION._replace(signum=1 << 40))
    time.sleep(0.2)
    assert other.decision() is None


def test_record_behind_which_something_else_stands_is_read(machines, tmp_path):
    """The run was on one machine before, where the file has a record for each worker."""
    MappedBorderBoard(tmp_path, 1, 0, 2).announce(DECISION)
    first, other = machines(0), machines(1)
    assert other.decision() is None
    first.announce(DECISION)
    assert _seen(other.decision, DECISION)


def test_what_cannot_be_written_now_is_written_later(machines, tmp_path):
    first, other = machines(0), machines(1)
    path = tmp_path / BORDERS
    path.rename(tmp_path / "away")
    path.mkdir()
    first.announce(DECISION)
    time.sleep(0.2)
    assert other.decision() is None
    path.rmdir()
    assert _seen(other.decision, DECISION)
