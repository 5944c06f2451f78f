"""Every oomph message starts on a new line, even in a file or pipe shared by stdout and stderr."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oomph.terminal.console import SharedOutput

LIMIT = 60
GUARD = "from oomph.script.session import say; say('from the script')"
UNFINISHED = f"""
import os, time
print('10/32 loss: 82.8', end='', flush=True)
{GUARD}
time.sleep(0.5)  # the supervisor passes it on
print('11/32 loss: 82.7', end='', flush=True)
os.kill(os.getpid(), 9) if not os.path.exists('x') and not open('x', 'w').close() else None
print('no newline', end='', flush=True)
"""


def run(folder: Path, script: str, shell: str) -> list[str]:
    (folder / "train.py").write_text(script)
    command = f"{sys.executable} -m oomph run --no-guard --run-dir=run train.py {shell}"
    subprocess.run(["bash", "-c", command], cwd=folder, timeout=LIMIT, capture_output=True, check=True)
    return (folder / "f.txt").read_text().splitlines()


@pytest.mark.parametrize("shell", ["> f.txt 2>&1", ">> f.txt 2>> f.txt", "2>&1 | cat > f.txt"])
def test_messages_are_not_appended_to_an_unfinished_stdout_line(tmp_path: Path, shell: str) -> None:
    lines = run(tmp_path, UNFINISHED, shell)
    glued = [line for line in lines if "oomph: " in line and not line.startswith("oomph: ")]
    assert glued == []
    assert lines[lines.index("10/32 loss: 82.8") + 1] == "oomph: from the script"
    assert lines[lines.index("11/32 loss: 82.7") + 1].startswith("oomph: the script was killed by SIGKILL")


@pytest.mark.parametrize("shell", ["> f.txt 2>&1", "2>&1 | cat > f.txt"])
def test_consecutive_messages_are_not_separated_by_blank_lines(tmp_path: Path, shell: str) -> None:
    lines = run(tmp_path, f"{GUARD}\n{GUARD}\n", shell)
    assert lines[0].startswith("oomph: running train.py")
    said = lines.index("oomph: from the script")
    assert lines[said + 1] == "oomph: from the script"
    if "|" not in shell:
        assert all(line.startswith("oomph: ") for line in lines), lines


def test_file_message_follows_a_finished_line_without_a_blank_line(tmp_path: Path) -> None:
    lines = run(tmp_path, "print('done', flush=True)", "> f.txt 2>&1")
    assert lines[lines.index("done") + 1].startswith("oomph: ")


class Pipe:
    """A pipe on a kernel that records the time of each write, or does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, notes_writes: bool) -> None:
        self.reading, self.fd = os.pipe()
        self.now, self._notes, self._writes = 0.0, notes_writes, 0
        found = os.fstat(self.fd)
        monkeypatch.setattr(os, "fstat", lambda fd: self if fd == self.fd else found)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.st_mode, self.st_ino, self.st_dev = found.st_mode, found.st_ino, found.st_dev

    @property
    def st_mtime_ns(self) -> int:
        return self._writes * self._notes

    def write(self) -> None:
        self._writes += 1
        self.now += 0.2


@pytest.mark.parametrize("notes_writes", [True, False])
def test_line_start_in_a_pipe_is_unknown_once_others_may_have_written(
    monkeypatch: pytest.MonkeyPatch, notes_writes: bool
) -> None:
    pipe = Pipe(monkeypatch, notes_writes)
    shared = SharedOutput(pipe.fd, pipe.fd)
    assert shared.is_at_line_start(), "nothing has been written yet"
    pipe.write()
    shared.end_line()
    assert shared.is_at_line_start()
    pipe.now += 0.2
    assert shared.is_at_line_start() is notes_writes
    pipe.write()
    assert not shared.is_at_line_start()


def test_line_start_in_a_pipe_is_unknown_once_the_script_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch, notes_writes=False)
    shared = SharedOutput(pipe.fd, pipe.fd)
    shared.end_line()
    shared.writers_began()
    assert not shared.is_at_line_start()


def test_line_start_in_a_pipe_is_known_again_after_the_script_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch, notes_writes=False)
    shared = SharedOutput(pipe.fd, pipe.fd)
    shared.writers_began()
    shared.writers_ended()
    assert not shared.is_at_line_start() or shared._written is None
    shared.end_line()
    pipe.now += 60
    assert shared.is_at_line_start()
    shared.writers_began()
    assert not shared.is_at_line_start()


@pytest.fixture
def pipe() -> tuple[int, Callable[[bytes], int]]:
    _, writing = os.pipe()
    return writing, lambda data: os.write(writing, data)


def test_separate_or_closed_descriptors_count_as_at_line_start(pipe, tmp_path) -> None:
    fd, write = pipe
    with (tmp_path / "out").open("w") as out:
        shared = SharedOutput(out.fileno(), fd)
        write(b"half")
        shared.end_line()
        write(b"half")
        assert shared.is_at_line_start()
        closed = out.fileno()
    assert SharedOutput(closed, closed).is_at_line_start()


@pytest.mark.parametrize("mode", [os.O_APPEND, 0])
def test_line_start_is_read_from_a_write_only_file(tmp_path, mode) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | mode)
    try:
        shared = SharedOutput(fd, fd)
        seen = [shared.is_at_line_start()]
        for piece in (b"half", b" line\n", b"\n", b"x"):
            os.write(fd, piece)
            seen.append(shared.is_at_line_start())
        assert seen == [True, False, True, True, False]
    finally:
        os.close(fd)
