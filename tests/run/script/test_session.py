"""A process's role in a run, tested in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.journal.journal import Event, read_journal
from oomph.protocol.handover import Handover

PACKAGE = Path(oomph.__file__).parent


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    def start(text: str, run_dir: str | None = None, **handover: Any) -> Any:
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "PYTHON"))}
        environ["PYTHONPATH"] = str(PACKAGE / "inject" / "site")
        Handover(package=str(PACKAGE), run_dir=run_dir or str(tmp_path), **handover).write(environ)
        return subprocess.run(
            [sys.executable, "script.py", "-v"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            pass_fds=[fd for fd in [handover.get("lock_fd")] if fd is not None],
        )

    return start


def named(run_dir: Path, name: str) -> list[Event]:
    return [event for event in read_journal(run_dir) if event.name == name]


def test_owner_records_its_python_and_arguments(start, tmp_path):
    start("pass")
    (event,) = named(tmp_path, "process-started")
    assert event.role == "script"
    assert event.data["python"] == sys.executable
    assert event.data["argv"] == [sys.executable, "script.py", "-v"]
    assert event.data["version"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("raise ValueError('x' * 5000)", ("ValueError", "x" * 2000)),
        ("class Odd(Exception):\n    def __str__(self): raise OSError\nraise Odd", ("Odd", "")),
        ("import sys; sys.exit(3)", None),
        ("import sys; sys.exit('words')", None),
        ("try: 1/0\nexcept ZeroDivisionError: pass", None),
        ("import sys; sys.excepthook = lambda *a: None\nraise KeyError('k')", ("KeyError", "'k'")),
    ],
)
def test_uncaught_exception_is_recorded_at_exit(start, tmp_path, ending, expected):
    start(ending)
    events = [(e.data["type"], e.data["message"]) for e in named(tmp_path, "uncaught-exception")]
    assert events == ([] if expected is None else [expected])


def test_owners_fork_does_not_record_its_exception(start, tmp_path):
    script = """
        import os, sys
        pid = os.fork()
        if pid == 0:
            raise RuntimeError("in the fork")
        os.waitpid(pid, 0)
    """
    assert "in the fork" in start(script).stderr
    assert named(tmp_path, "uncaught-exception") == []


def test_script_that_execs_itself_remains_the_owner(start, tmp_path):
    script = """
        import os, sys
        if "AGAIN" not in os.environ:
            os.execve(sys.executable, [sys.executable, "script.py"], {**os.environ, "AGAIN": "1"})
        raise ValueError("second life")
    """
    start(script)
    assert [event.role for event in named(tmp_path, "process-started")] == ["script", "script"]
    assert len(named(tmp_path, "uncaught-exception")) == 1


def test_consecutive_python_processes_own_the_run_in_turn(tmp_path, start):
    start("pass")
    start("pass")
    assert [event.role for event in named(tmp_path, "process-started")] == ["script", "script"]


def test_second_python_alongside_the_owner_is_a_worker(start, tmp_path):
    script = """
        import os, subprocess, sys
        environ = {k: v for k, v in os.environ.items() if k != "OOMPH_OWNER"}
        subprocess.run([sys.executable, "-c", "pass"], env=environ)
    """
    start(script)
    roles = [event.role for event in named(tmp_path, "process-started")]
    assert roles[0] == "script"
    assert roles[1].startswith("worker")


def test_multiprocessing_children_are_not_owners(start, tmp_path):
    script = """
        import multiprocessing, os, sys

        def look(_):
            return os.environ["OOMPH_OWNER"] != str(os.getpid())

        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(look, [0]))
    """
    assert start(script).stdout == "[True]\n" * 3
    assert len(named(tmp_path, "process-started")) == 1


def test_lock_is_not_inherited_by_children(start, tmp_path):
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    script = f"""
        import os, subprocess, sys
        print(os.fstat({fd}).st_ino == os.stat("lock").st_ino)
        print(subprocess.run(["readlink", "/proc/self/fd/{fd}"], close_fds=False).returncode)
    """
    result = start(script, lock_fd=fd)
    os.close(fd)
    assert sorted(result.stdout.split()) == ["1", "True"]


def test_owners_session_is_joined_only_once(start, tmp_path):
    script = """
        import os, sys
        from oomph.protocol.handover import Handover
        from oomph.protocol.ownership import claim_ownership
        from oomph.script.session import join
        session = join(Handover.read())  # a second time: the lock is ours already, so this one is not the owner
        session.say("words")
        print(session.owner, session.is_owner_now(), session.pid == os.getpid(), session.run_dir, session.board)
        sys.stderr.close()
        session.say("unheard")
        sys.stderr = None
        session.say("unheard")
    """
    result = start(script)
    assert result.stdout == f"False False True {tmp_path} None\n"
    assert result.stderr == "oomph: words\n"


def test_progress_written_by_the_owner_is_read_by_the_supervisor(tmp_path, monkeypatch):
    from oomph.protocol.ownership import VARIABLE
    from oomph.protocol.progress import read_progress

    monkeypatch.delenv(VARIABLE, raising=False)
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
        "from oomph.protocol.handover import Handover\n"
        "from oomph.script.session import join\n"
        f"session = join(Handover(package='', run_dir={str(tmp_path)!r}, attempt=2))\n"
        "session.board.write(fit=0, epoch=1, step=2, steps=12, saved=10)\n"
        "import os; print(session.owner, session.is_owner_now()); sys.stdout.flush(); os.kill(os.getpid(), 9)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "True True\n", result.stderr
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress.attempt, progress.epoch, progress.step, progress.steps, progress.saved) == (2, 1, 2, 12, 10)


def test_session_exists_without_a_run_directory(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
        "from oomph.protocol.handover import Handover\n"
        "from oomph.journal.events import Oom\n"
        "from oomph.script.session import join\n"
        "session = join(Handover(package='', run_dir=None))\n"
        "session.journal.write(Oom())\n"
        "print(session.owner, session.board, session.run_dir)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "True None None\n", result.stderr
