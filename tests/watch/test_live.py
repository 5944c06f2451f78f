"""A live view session on its own terminal: keys, sizes and signals, with the terminal restored afterwards."""

from __future__ import annotations

import os
import re
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import EIGHT, driver
from watch_session import LIMIT, Session

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture(name="session")
def _session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path, **driver(tmp_path, EIGHT))
    yield session
    session.close()


def is_restored(session: Session) -> bool:
    """True if the screen and the modes are the same as before."""
    return session.seen.rindex(LEAVE) > session.seen.rindex(ENTER) and session.modes() == session.before


def test_a_session_reacts_to_keys_and_restores_the_terminal(session):
    session.until(r"GPU memory.*NVIDIA|7 .*GiB.*q quit")
    assert session.modes() != session.before
    session.press("s")
    session.until("sort: memory")
    session.press("p")
    session.until("paused")
    session.press("p")
    session.until("p pause")
    session.resize(120, 40)
    session.process.send_signal(signal.SIGWINCH)
    session.until("Fake H100")
    session.resize(20, 5)
    session.process.send_signal(signal.SIGWINCH)
    session.until("is too small")
    session.resize(60, 20)
    session.process.send_signal(signal.SIGWINCH)
    session.until("7 .*GiB.*q quit")
    session.press("xyzq")
    assert session.end() == 0
    assert is_restored(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_closes_the_view_and_restores_the_terminal(session, number):
    session.until("q quit")
    session.process.send_signal(number)
    assert session.end() == 128 + number
    assert is_restored(session)
    assert "Traceback" not in session.seen


def test_a_suspended_view_restores_the_terminal_and_reappears_on_resume(session):
    session.until("q quit")
    session.process.send_signal(signal.SIGTSTP)
    session.until(re.escape(LEAVE))
    session.wait_until_stopped()
    assert session.modes() == session.before
    session.process.send_signal(signal.SIGCONT)
    session.until(f"{re.escape(ENTER)}.*q quit")
    assert session.modes() != session.before
    session.press("q")
    assert session.end() == 0
    assert is_restored(session)


def test_the_view_reappears_when_continued_after_sigstop(session):
    session.until("q quit")
    session.process.send_signal(signal.SIGSTOP)
    session.wait_until_stopped()
    termios.tcsetattr(session.theirs, termios.TCSANOW, session.before)  # as a shell does
    session.process.send_signal(signal.SIGCONT)
    session.until(f"{re.escape(ENTER)}.*q quit")
    assert session.modes() != session.before
    session.press("q")
    assert session.end() == 0
    assert is_restored(session)


def test_a_traceback_is_printed_after_leaving_the_alternate_screen(tmp_path):
    code = "from oomph.watch.live_view import show\nshow(lambda: 1 / 0)"
    session = Session(tmp_path, code)
    assert session.end() == 1
    assert is_restored(session)
    assert "ZeroDivisionError" in session.seen[session.seen.rindex(LEAVE) :]
    session.close()


@pytest.mark.parametrize("told", [True, False])
def test_view_exits_when_its_terminal_is_closed(tmp_path, told):
    """A lost ssh connection: SIGHUP if the terminal controls the view's session, and errors in any case."""
    session = Session(tmp_path, **driver(tmp_path, EIGHT))
    session.until("q quit")
    if told:  # first: once it has seen the error, it is exiting, and a signal would then kill it directly
        session.process.send_signal(signal.SIGHUP)
    os.close(session.theirs)
    os.close(session.ours)
    assert session.process.wait(LIMIT) == 128 + signal.SIGHUP


def test_the_view_works_on_a_terminal_without_size_or_utf_8(tmp_path):
    session = Session(tmp_path, columns=0, rows=0, **driver(tmp_path, EIGHT) | {"PYTHONIOENCODING": "ascii"})
    session.until(r"GiB +_+ +97%.*q quit")
    session.press("q")
    assert session.end() == 0
    session.close()


def test_color_never_suppresses_escape_codes(tmp_path):
    code = "import sys\nfrom oomph.cli import main\nsys.exit(main(['watch', '--color=never']))"
    session = Session(tmp_path, code, **driver(tmp_path, EIGHT))
    session.until("7 .*GiB.*q quit")
    assert not re.search(r"\x1b\[[\d;]*3\dm", session.seen)
    session.press("q")
    assert session.end() == 0
    session.close()


def test_the_view_keeps_running_without_a_keyboard(tmp_path):
    code = (
        "import os, sys\nos.dup2(os.open(os.devnull, os.O_RDONLY), 0)\n"
        "from oomph.cli import main\nsys.exit(main(['watch']))"
    )
    session = Session(tmp_path, code, **driver(tmp_path, EIGHT))
    session.until("7 .*GiB.*q quit")
    session.process.send_signal(signal.SIGINT)
    assert session.end() == 130
    session.close()
