"""A child's output is read within limits, and the child and everything it started exits, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from oomph.process import child as module
from oomph.process.child import Child, Finished, returncode_of, run

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); import time; time.sleep(60)"
HEARS = "print(flush=True); import time; time.sleep(60)"
STARTS_ANOTHER = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
{then}
"""
LIMIT = 30.0


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def finished(code: str, seconds: float = LIMIT, **how) -> Finished:
    return run(python(code), os.environ, seconds, **how)


def is_gone(pid: int) -> bool:
    until = time.monotonic() + LIMIT
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_finished_child_returns_its_output_and_exit_code():
    assert finished("print('one'); raise SystemExit(3)") == Finished(b"one\n", 3)
    assert finished("import os; os.kill(os.getpid(), 11)") == Finished(b"", -signal.SIGSEGV)


def test_child_stderr_is_dropped_or_merged_into_its_output(tmp_path):
    code = "import os, sys; sys.stderr.write(os.getcwd())"
    assert finished(code) == Finished(b"", 0)
    assert finished(code, stderr=subprocess.STDOUT, cwd=tmp_path) == Finished(os.fsencode(tmp_path), 0)


def test_child_is_stopped_at_its_deadline():
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="nothing within 1 s"):
        finished("import time; time.sleep(60)", seconds=1)
    assert 1 <= time.monotonic() - began < 10


def test_output_written_before_the_deadline_is_kept():
    with Child(python("print('one', flush=True); import time; time.sleep(60)"), os.environ) as child:
        assert child.listen(time.monotonic() + 1) == b"one\n"
        assert child.returncode is None


def test_parent_waits_for_a_child_that_closes_its_output():
    code = "import os, time; os.write(1, b'one'); os.close(1); time.sleep({}); os._exit(5)"
    assert finished(code.format(0.3)) == Finished(b"one", 5)
    with pytest.raises(TimeoutError):
        finished(code.format(60), seconds=1)


@pytest.mark.parametrize("then", ["time.sleep(60)", "", "sys.exit(1)"])
def test_grandchildren_exit_with_the_child(then):
    with Child(python(STARTS_ANOTHER.format(then=then)), os.environ) as child:
        other = int(child.read(LIMIT))
        child.wait(0.5)
    assert is_gone(other)


def test_endless_output_is_bounded_in_size_and_time(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 1000)
    began = time.monotonic()
    with Child(python("import os\nwhile True: os.write(1, b'x' * 4096)"), os.environ) as child:
        assert child.listen(began + 0.5) == b"x" * 1000
    assert time.monotonic() - began < 10


def test_end_of_long_output_is_kept(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 4)
    assert finished("print('x' * 200_000); print('end')") == Finished(b"end\n", 0)


def test_output_written_before_a_late_read_is_returned():
    with Child(python("print('one')"), os.environ) as child:
        assert child.wait(LIMIT)
        assert child.listen(time.monotonic() - 1) == b"one\n"
        assert child.returncode == 0


def test_missing_program_raises_file_not_found():
    with pytest.raises(FileNotFoundError):
        run(["no-such-program-of-oomph"], os.environ, LIMIT)


def test_lines_are_complete_and_overlong_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "_LONGEST_LINE", 10)
    code = (
        "import os, time\nfor data in (b'a\\nb', b'c\\n', b'x' * 20, b'd\\n', b'e'): os.write(1, data); time.sleep(0.1)"
    )
    with Child(python(code), os.environ) as child:
        heard = []
        while child.is_open:
            heard += child.lines(LIMIT)
    assert heard == [b"a", b"bc", b"d", b"e"]


def test_reading_does_not_block_by_default():
    with Child(python(HEARS), os.environ) as child:
        assert child.read(LIMIT) == b"\n"
        began = time.monotonic()
        assert (child.read(), child.lines(), child.wait(0)) == (b"", [], False)
        assert time.monotonic() - began < 0.5


def test_closed_descriptor_reads_as_empty():
    with Child(python(HEARS), os.environ) as child:
        copy = os.dup(child._output.fileno())
        os.close(child._output.fileno())
        assert child.read(0.1) == b""
        os.dup2(copy, child._output.fileno())
        os.close(copy)


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize(("code", "died_of"), [(HEARS, signal.SIGTERM), (DEAF, signal.SIGKILL)])
def test_child_is_asked_to_exit_and_killed_after_the_grace_period(code, died_of, own_session):
    child = Child(python(code), os.environ, own_session=own_session, grace_seconds=1.0)
    child.read(LIMIT)
    began = time.monotonic()
    child.close()
    assert child.returncode == -died_of
    assert (time.monotonic() - began >= 1.0) == (died_of == signal.SIGKILL)


def test_exited_child_keeps_its_exit_code():
    with Child(python("raise SystemExit(7)"), os.environ, grace_seconds=1.0) as child:
        assert child.wait(LIMIT)
    assert child.returncode == 7


def test_child_pid_is_not_released_before_closing():
    with Child(python("raise SystemExit(7)"), os.environ) as child:
        assert child.wait(LIMIT)
        assert returncode_of(child.pid) == child.returncode == 7
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert not psutil.pid_exists(child.pid)


def test_child_reaped_elsewhere_counts_as_exited_and_is_not_signalled(monkeypatch):
    monkeypatch.setattr(os, "killpg", None)
    with Child(python("raise SystemExit(7)"), os.environ) as child:
        os.waitpid(child.pid, 0)
        assert child.wait(LIMIT)
        assert child.returncode == 0


def test_fork_of_the_parent_does_not_stop_the_child():
    with Child(python(HEARS), os.environ) as child:
        child.read(LIMIT)
        fork = os.fork()
        if fork == 0:
            child.close()
            os._exit(0)
        os.waitpid(fork, 0)
        assert not child.wait(0.2)


def test_ctrl_c_inside_the_block_stops_the_child():
    def interrupted() -> None:
        with Child(python(HEARS), os.environ) as child:
            pids.append(child.pid)
            raise KeyboardInterrupt

    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not psutil.pid_exists(pids[0])


def test_only_the_child_is_signalled_if_it_shares_our_session():
    code = STARTS_ANOTHER.format(then="time.sleep(60)")
    with Child(python(code), os.environ, own_session=False) as child:
        other = psutil.Process(int(child.read(LIMIT)))
    assert other.is_running()
    other.kill()
