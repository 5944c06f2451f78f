"""The end of a stream in a file: as much as requested, and no false claims on a full disk."""

from __future__ import annotations

import os
import tracemalloc

import pytest

from oomph.files.opening import OwnFile
from oomph.process import stderr
from oomph.process.stderr import KeptFile


def test_kept_file_contains_the_end_and_stays_under_twice_its_size(tmp_path):
    file = KeptFile(OwnFile(tmp_path, "log"), kept_bytes=100)
    for number in range(1000):
        file.feed(b"%04d\n" % number)
        assert (tmp_path / "log").stat().st_size <= 205
    file.close()
    assert (tmp_path / "log").read_bytes() == b"".join(b"%04d\n" % number for number in range(980, 1000))


def test_kept_file_contents_are_not_held_in_memory(tmp_path):
    file, line = KeptFile(OwnFile(tmp_path, "log"), kept_bytes=16 << 20), b"a line of a report\n" * 1000
    tracemalloc.start()
    try:
        for _ in range(400):
            file.feed(line)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    file.close()


@pytest.mark.parametrize("room", [0, 7])
def test_partial_write_on_a_full_disk_does_not_count_as_written(tmp_path, monkeypatch, room):
    left = [room]

    def write(fd, data):
        if not left[0]:
            raise OSError(28, "No space left on device")
        taken, left[0] = min(len(data), left[0]), 0
        return os.write(fd, data[:taken])

    file = KeptFile(OwnFile(tmp_path, "log"), kept_bytes=100)
    assert file.is_written
    monkeypatch.setattr(stderr, "os", Os(write))
    file.feed(b"a line of a report\n")
    assert not file.is_written


class Os:
    """Simulate `os` on a disk with little room."""

    def __init__(self, write):
        self.write = write

    def __getattr__(self, name):
        return getattr(os, name)
