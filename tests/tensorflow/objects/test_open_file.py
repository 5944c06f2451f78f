"""Files that the user's code holds open."""

from __future__ import annotations

import sys

import pytest

from oomph.resume.objects.picture import Picture, changes_between
from oomph.resume.objects.restoration import Restoration


class Log:
    def __init__(self, file):
        self.file = file


def resumed(folder, mode, before, after, since=""):
    """A log that held `before` when the fit began and `after` at the checkpoint; the next attempt begins it again."""
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


def test_a_file_being_read_resumes_where_it_was(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"abcdef")
    with open(tmp_path / "data.bin", "rb") as first, open(tmp_path / "data.bin", "rb") as second:
        picture = Picture.of([("callback", Log(first))])
        first.read(4)
        changes = changes_between(picture, Picture.of([("callback", Log(first))], picture))
        Restoration(Picture.of([("callback", Log(second))]), changes).apply()
        assert second.read() == b"ef"


def test_a_log_too_large_to_keep_is_reported_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.resume.objects.standard_kinds._LARGEST_FILE", 3)
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
