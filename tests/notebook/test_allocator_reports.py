"""stderr goes through another pipe only where that does no harm, and is restored whatever happens to the reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_START = """
import fcntl, os, sys, threading, time
from pathlib import Path
from oomph.files.opening import OwnFile
from oomph.notebook.display import allocator_reports
from oomph.notebook.display.allocator_reports import AllocatorReports
told = []
reports = AllocatorReports(OwnFile(Path({folder!r}), "stderr/1-memory.log"), told.append)
before = os.fstat(2).st_ino
def is_as_before():
    return os.fstat(2).st_ino == before
"""
_LINE = b"2026-11-29 20:30:00.123456: W tsl/framework/bfc_allocator.cc:497] Allocator ran out of memory\n"


def _run(folder: Path, code: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    script = _START.format(folder=str(folder)) + code
    return subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True)


def test_stderr_that_is_not_a_pipe_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "err").open("wb") as file:
        ended = _run(tmp_path, "reports.begin(); print(is_as_before()); reports.end(); reports.close()", file.fileno())
    assert ended.stdout == b"True\n"


@pytest.mark.parametrize("size", [4096, 65536])
def test_pipe_that_would_be_smaller_than_ipykernels_is_not_used(tmp_path: Path, size: int) -> None:
    """A user whose pipes take up too much memory gets at most two pages for each new one (pipe(7))."""
    code = f"""
allocator_reports._LARGE = {size}
reports.begin(); print(is_as_before()); reports.end(); print(is_as_before()); reports.close()
"""
    assert _run(tmp_path, code).stdout == (b"True\nTrue\n" if size < 65536 else b"False\nTrue\n")


def test_failing_reader_restores_stderr_and_can_start_again(tmp_path: Path) -> None:
    code = f"""
threading.excepthook = lambda args: print(args.exc_type.__name__, flush=True)
reports._tell = lambda lines: 1 / 0
reports.begin(); os.write(2, {_LINE!r}); time.sleep(0.6)
print(is_as_before()); reports.end(); os.write(2, b"one\\n")
reports._tell = told.append
reports.begin(); os.write(2, b"two\\n" + {_LINE!r} * 3); reports.end(); reports.close()
print(is_as_before(), told)
"""
    ended = _run(tmp_path, code)
    assert ended.stdout == b"ZeroDivisionError\nTrue\nTrue [3]\n"
    assert ended.stderr == b"one\ntwo\n"


def test_report_written_after_the_end_is_passed_on(tmp_path: Path) -> None:
    late = f"import os, time; time.sleep(0.5); os.write(2, {_LINE!r})"
    code = f"""
import subprocess
reports.begin()
child = subprocess.Popen([sys.executable, "-c", {late!r}])
reports.end(); reports.close(); child.wait()
while any(thread.name == "oomph-stderr" for thread in threading.enumerate()): time.sleep(0.01)
"""
    assert _run(tmp_path, code).stderr == _LINE


def test_only_the_first_report_of_each_fit_is_announced(tmp_path: Path) -> None:
    code = f"""
for fit in range(3):
    reports.begin()
    for _ in range(2):
        os.write(2, {_LINE!r} * (fit + 1)); time.sleep(0.4)
    reports.end()
reports.close(); print(told)
"""
    ended = _run(tmp_path, code)
    assert ended.stdout == b"[1, 2, 3]\n"
    assert (tmp_path / "stderr" / "1-memory.log").read_bytes() == _LINE * 12
