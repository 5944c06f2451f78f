"""Objects of Python's standard library that keep what they hold to themselves."""

from __future__ import annotations

import array
import hashlib
import io
import sqlite3

import pytest

from oomph.resume.objects.picture import Picture, changes_between
from oomph.resume.objects.restoration import Restoration


def taken_over(make, change):
    """One that is changed, another one that is given that change, and what was lost on the way."""
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


def test_a_database_in_a_file_is_not_treated_as_training_state(tmp_path):
    def write(connection):
        connection.execute("insert into seen values (1)")
        connection.commit()

    assert taken_over(lambda: table(tmp_path / "seen.db"), write)[2] == []
