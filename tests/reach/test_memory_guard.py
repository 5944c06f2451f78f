"""A script that exhausts the machine's memory is stopped, and this is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from oomph.process.command import parse_command
from oomph.reach import guards
from oomph.reach.ending import ran_out
from oomph.reach.guards import MemoryGuard
from oomph.reach.request import Heard, ReachRequest, RequestedTraining

MB = 1 << 20


@pytest.fixture(scope="module", name="pid")
def _pid():
    """A process whose child uses 60 MB, while it uses less than 20 itself."""
    child = "x = bytearray(60 << 20); print(flush=True); import time; time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-S", "-c", parent], stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)


def machine(folder: Path, total: int, available: int, limit: int = 0, used: int = 0) -> Path:
    """Create the files of a machine with this many bytes, in a control group with this limit."""
    group = folder / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: {total // 1024} kB\nMemAvailable: {available // 1024} kB\n")
    (folder / "proc/self/cgroup").write_text("0::/job\n")
    (group / "memory.max").write_text(str(limit) if limit else "max")
    (group / "memory.current").write_text(str(used))
    return folder


@pytest.mark.parametrize(
    ("total", "available", "limit", "used", "is_too_much"),
    [
        (100 * MB, 3 * MB, 0, 0, True),
        (100 * MB, 20 * MB, 0, 0, False),
        (1000 * MB, 3 * MB, 0, 0, False),  # others fill up the machine's memory
        (64000 * MB, 32000 * MB, 100 * MB, 98 * MB, True),
        (64000 * MB, 32000 * MB, 100 * MB, 70 * MB, False),
    ],
)
def test_guard_reports_a_script_that_exhausts_memory(tmp_path, pid, total, available, limit, used, is_too_much):
    said = MemoryGuard(pid, machine(tmp_path, total, available, limit, used)).said()
    assert said.endswith("of this machine's 100 MiB of memory") is is_too_much
    assert bool(said) is is_too_much


def test_guard_checks_memory_at_most_ten_times_a_second(tmp_path, pid, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(guards, "time", SimpleNamespace(monotonic=lambda: now))
    guard = MemoryGuard(pid, machine(tmp_path, 100 * MB, 3 * MB))
    assert guard.said()
    now += 0.09
    assert guard.said() == ""
    now += 0.02
    assert guard.said()


def test_guard_makes_the_kernel_kill_the_script_first(tmp_path, pid):
    MemoryGuard(pid, tmp_path)
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) >= 900


def test_memory_shortage_is_reported_with_its_phase():
    request = ReachRequest(parse_command(["-m", "train"]), sys.executable, "examiners:describe")
    took = "20.1 GiB of this machine's 23.5 GiB of memory"
    before = ran_out(Heard(joined=True), took, request)
    assert before.reason.startswith(f"the script used {took} before its first training call, and was killed")
    reading = Heard(
        joined=True, examining=RequestedTraining("fit", "train.py:9"), progress="reading a sample of the data"
    )
    assert ran_out(reading, took, request).reason == (
        f"the process being examined at train.py:9 used {took} while reading a sample of the data, and was killed"
    )
