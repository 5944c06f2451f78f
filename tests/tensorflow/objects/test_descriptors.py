"""Numbers that are file descriptors, and numbers that only look like them."""

from __future__ import annotations

import os

from oomph.objects import instances
from oomph.objects.instances import is_open_for_writing


class Log:
    def __init__(self, fd: int, written: int) -> None:
        self.fd, self.written = fd, written


def test_only_descriptors_open_for_writing_are_recognised(tmp_path) -> None:
    path = tmp_path / "log"
    writing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    reading, pipe = os.open(path, os.O_RDONLY), os.pipe()
    try:
        assert is_open_for_writing(writing)
        assert not any(map(is_open_for_writing, (reading, *pipe, 1, -1, 99_999, True, 12.0, "12", None)))
    finally:
        for fd in (writing, reading, *pipe):
            os.close(fd)
    assert not is_open_for_writing(writing)


def test_counter_is_restored_but_the_open_descriptor_is_kept(tmp_path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    try:
        log, kind = Log(fd, written=0), instances.Instance()
        before = kind.content(Log(fd + 1, written=7), lambda value, old=None: value)
        kind.give_back(log, before, lambda value, old=None: value)
        assert (log.fd, log.written) == (fd, 7)
    finally:
        os.close(fd)
