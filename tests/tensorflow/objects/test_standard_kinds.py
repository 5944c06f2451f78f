"""Standard library objects that hide their contents, and files that the user's code keeps open."""

from __future__ import annotations

import array
import hashlib
import io
import sqlite3
import sys

import pytest

from oomph.objects.picture import Picture, changes_between
from oomph.objects.restoration import Restoration


def taken_over(make, change):
    """Return one that is changed, another that receives that change, and what was lost on the way."""
    first, second = {"held": make()}, {"held": make()}
    before = Picture.of([("callback", first)])
    change(first["held"])
    changes = changes_between(before, Picture.of([("callback", first)], before))
    restored = Restoration(Picture.of([("callback", second)]), changes)
    restored.apply()
    return first["held"], second["held"], [*map(str, [*changes.lost, *restored.lost])]


def filled(make, text):
    buffer = make()
    buffer.write(text)
    return buffer


@pytest.mark.parametrize(("make", "text"), [(io.StringIO, "ä row\n"), (io.BytesIO, b"\x00row\n")])
def test_a_buffer_resumes_at_its_position(make, text):
    first, second, lost = taken_over(lambda: filled(make, text), lambda buffer: (buffer.write(text), buffer.seek(3)))
    assert (second.getvalue(), second.tell(), lost) == (first.getvalue(), 3, [])


def test_a_number_array_is_restored():
    _, second, lost = taken_over(lambda: array.array("d", [1.0]), lambda numbers: numbers.append(2.5))
    assert (second.tolist(), lost) == ([1.0, 2.5], [])


def test_new_arrays_and_buffers_are_created():
    made = {}
    picture = Picture.of([("callback", made)])
    made |= {"numbers": array.array("i", [3]), "text": filled(io.StringIO, "a")}
    changes = changes_between(picture, Picture.of([("callback", made)], picture))
    other = {}
    Restoration(Picture.of([("callback", other)]), changes).apply()
    assert (other["numbers"], other["text"].getvalue()) == (array.array("i", [3]), "a")


@pytest.mark.parametrize("name", ["sha256", "blake2b", "md5", "shake_128"])
def test_an_updated_hash_is_reported_as_lost(name):
    _, _, lost = taken_over(lambda: hashlib.new(name), lambda digest: digest.update(b"more"))
    assert len(lost) == 1
    assert lost[0].startswith("callback['held']")


def test_an_unchanged_hash_is_not_reported_as_lost():
    assert taken_over(hashlib.sha256, lambda digest: digest.digest())[2] == []


def table(path=":memory:"):
    connection = sqlite3.connect(path)
    connection.execute("create table if not exists seen (step)")
    return connection


@pytest.mark.parametrize("make", [table, lambda: table().cursor()])
def test_a_changed_in_memory_database_is_reported_as_lost(make):
    _, _, lost = taken_over(make, lambda held: held.execute("insert into seen values (1)"))
    assert len(lost) == 1


def test_file_based_database_is_not_treated_as_training_state(tmp_path):
    def write(connection):
        connection.execute("insert into seen values (1)")
        connection.commit()

    assert taken_over(lambda: table(tmp_path / "seen.db"), write)[2] == []


class Log:
    def __init__(self, file):
        self.file = file


def resumed(folder, mode, before, after, since=""):
    """A log that contained `before` when the fit started and `after` at the checkpoint; the next attempt reopens it."""
    path = folder / "log.txt"
    with open(path, mode, **_text(mode)) as file:
        log = Log(file)
        _write(file, before)
        picture = Picture.of([("callback", log)])
        _write(file, after)
        changes = changes_between(picture, Picture.of([("callback", log)], picture))
        _write(file, since)
    with open(path, mode, **_text(mode)) as file:
        log = Log(file)
        _write(file, before)
        restored = Restoration(Picture.of([("callback", log)]), changes)
        restored.apply()
        _write(file, "next\n")
    return path.read_text(), [*map(str, [*changes.lost, *restored.lost])]


def _text(mode):
    return {} if "b" in mode else {"encoding": "utf-8"}


def _write(file, text):
    file.write(text.encode() if "b" in file.mode else text)


@pytest.mark.parametrize("mode", ["w", "a", "w+", "wb", "w+b"])
def test_an_open_log_is_truncated_to_the_checkpoint_and_continued(tmp_path, mode):
    found, lost = resumed(tmp_path, mode, "head\n", "ä 1\nä 2\n", since="3, which comes again\n")
    assert (found, lost) == ("head\nä 1\nä 2\nnext\n", [])


def test_buffered_writes_are_flushed_before_they_are_recorded(tmp_path):
    with open(tmp_path / "log.txt", "w", buffering=1 << 16) as file:
        picture = Picture.of([("callback", Log(file))])
        file.write("in the buffer")
        Picture.of([("callback", Log(file))], picture)
        assert (tmp_path / "log.txt").read_text() == "in the buffer"


def test_reading_an_open_file_continues_at_its_position(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"abcdef")
    with open(tmp_path / "data.bin", "rb") as first, open(tmp_path / "data.bin", "rb") as second:
        picture = Picture.of([("callback", Log(first))])
        first.read(4)
        changes = changes_between(picture, Picture.of([("callback", Log(first))], picture))
        Restoration(Picture.of([("callback", Log(second))]), changes).apply()
        assert second.read() == b"ef"


def test_log_that_is_too_large_to_keep_is_reported_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.objects.standard_kinds._LARGEST_FILE", 3)
    found, lost = resumed(tmp_path, "w", "", "1234\n")
    assert (found, len(lost)) == ("next\n", 1)
    assert "callback.file" in lost[0]


def test_standard_streams_are_left_alone(capfd):
    thing = {"out": sys.__stdout__, "err": sys.__stderr__, "n": 1}
    picture = Picture.of([("callback", thing)])
    print("more", file=sys.__stdout__, flush=True)
    thing["n"] = 2
    changes = changes_between(picture, Picture.of([("callback", thing)], picture))
    assert list(changes.changed) == ["callback"]
    assert changes.lost == []


def test_a_closed_file_is_not_reported_as_lost(tmp_path):
    with open(tmp_path / "log.txt", "w") as file:
        picture = Picture.of([("callback", Log(file))])
    changes = changes_between(picture, Picture.of([("callback", Log(file))], picture))
    assert changes.lost == []
