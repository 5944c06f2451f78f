"""A script that reads from the terminal gets it, and the shell gets it back afterwards."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import oomph

LIMIT = 30
SHELL = "set -m; {} -m oomph plan ask.py; echo ended $?; read -t 5 line; echo got $line"
ASK = "import time\nname = input('name? ')\ntime.sleep(0.2)\nraise ValueError('hello ' + name)\n"


def talk(command: str, answers: dict[str, str]) -> str:
    """Return what a shell on its own terminal shows; each answer is typed when its question appears."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv("/bin/bash", ["bash", "-c", command])
    shown, until = "", time.monotonic() + LIMIT
    try:
        while time.monotonic() < until:
            if not select.select([fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:
                break  # the shell has exited
            shown += data.decode()
            for question in [each for each in answers if each in shown]:
                os.write(fd, answers.pop(question).encode() + b"\n")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    return shown


def test_terminal_returns_to_the_shell_after_a_script_prompt(tmp_path, monkeypatch):
    (tmp_path / "ask.py").write_text(ASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(oomph.__file__).parents[1]))
    shown = talk(SHELL.format(sys.executable), {"name?": "Ada", "ended": "after"})
    assert "ValueError: hello Ada" in shown
    assert "ended 3" in shown
    assert "got after" in shown
