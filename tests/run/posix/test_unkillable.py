"""Processes that survive SIGKILL, as under a hanging driver: waited for, but not forever, and nothing runs alongside.

A tracer that stops its tracee on exit (PTRACE_O_TRACEEXIT) creates a real one: however often it is killed, the kernel
does not release it until the tracer lets it go, and its files and locks stay open.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from oomph.journal.journal import read_journal
from oomph.process import process_group
from oomph.process.command import Command
from oomph.process.isolation.isolate import isolate
from oomph.process.process_group import Patience
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.policy import decisions
from oomph.run.policy.decide import Ending, Ledger, Requeue, decide
from oomph.run.policy.ladder import Conditions
from oomph.run.supervisor import supervise
from oomph.run.supervisor.settings import Settings

SECONDS = 60
HOLD = """
import ctypes, os, signal, sys, time

def hold(pid, path, seconds=30):
    "Trace the process from a child of its own session, which lets go of all that it holds; says so in a file."
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER: where Yama asks for it
    if os.fork() == 0:
        os.setsid()
        os.closerange(3, 256)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seized = libc.ptrace(0x4206, pid, None, 0x40)  # PTRACE_SEIZE, PTRACE_O_TRACEEXIT
        with open(path, "w") as file:
            file.write(f"{os.getpid() if seized == 0 else ''}\\n")
        time.sleep(seconds)
        os._exit(0)
    while not (os.path.exists(path) and open(path).read().endswith("\\n")):
        time.sleep(0.01)
"""


@pytest.fixture
def let_go(work):
    """Stop the tracer whose pid is in the file."""

    def end(name: str = "held") -> None:
        (tracer,) = work.wait_for(name)
        if tracer and psutil.pid_exists(int(tracer)):
            os.kill(int(tracer), signal.SIGKILL)

    yield end
    if (work.folder / "held").exists():
        end()


def may_trace() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        code = HOLD + "hold(os.getpid(), 'held', 0.1)"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=SECONDS)
        return bool((Path(folder) / "held").read_text().strip())


pytestmark = pytest.mark.skipif(not may_trace(), reason="a container may forbid tracing: no such process is to be had")


def test_unkillable_script_is_abandoned_and_not_restarted(work, let_go, monkeypatch, capfd):
    work.script(
        HOLD + "open('count', 'a').write('x')\nhold(os.getpid(), 'held')\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(50)"
    )
    monkeypatch.chdir(work.folder)
    run = RunDirectory.create(work.folder / "run", RunRecord(("train.py",), sys.executable, str(work.folder), ""))
    settings = Settings(patience=Patience(terminate_seconds=0.5, unkillable_seconds=3))
    began = time.monotonic()
    outcome = supervise.Supervisor(Command(("train.py",)), sys.executable, run, settings).supervise()
    run.close()
    assert outcome.exit_code == 75
    assert 3 < time.monotonic() - began < 20
    (tracer,) = work.wait_for("held")
    said = capfd.readouterr().err
    assert "waiting for the killed script to exit" in said, "progress, after two seconds"
    assert f"3 s after SIGKILL: process {tracer} is tracing it" in said
    assert "not restarting while it may still write" in said
    events = read_journal(work.folder / "run")
    assert [event.data["reason"] for event in events if event.name == "unkillable"]
    assert all(decision.reproduced for decision in decisions.replay(events))
    assert work.document("run.json", work.folder / "run")["status"] == "preempted"
    assert (work.folder / "count").read_text() == "x"
    # it holds the run directory as long as it exists, so no other oomph takes over the run in the meantime
    again = work.run("--resume=run", "train.py")
    assert again.returncode == 2
    assert b"in use" in again.stderr
    let_go()


def test_unkillable_process_behind_a_shell_prevents_the_next_attempt(work, let_go, monkeypatch):
    """The shell has died and could be restarted, but the Python process behind it is the one that writes."""
    monkeypatch.chdir(work.folder)
    monkeypatch.setattr(supervise, "_SILENT_WAIT_SECONDS", 0.1)
    work.script(
        HOLD + "open('count', 'a').write('x')\n"
        "hold(os.getpid(), 'held')\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(50)"
    )
    run = RunDirectory.create(work.folder / "run", RunRecord(("train.py",), sys.executable, str(work.folder), ""))
    words = ("--", "sh", "-c", f"{sys.executable} train.py; exit 3")
    outcome = supervise.Supervisor(Command(words), sys.executable, run, Settings()).supervise()
    run.close()
    assert outcome.exit_code == 75
    assert (work.folder / "count").read_text() == "x"
    let_go()


def test_unkillable_process_is_described_as_text():
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(50)"],
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    try:
        child.stdout.readline()  # until then, it may be waiting for the disk that Python is on
        assert process_group.is_in(child.pid, child.pid)
        assert process_group.why_it_stays(child.pid).startswith(("state S", "state R"))
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not process_group.is_in(child.pid, child.pid), "a zombie holds nothing any more"
        child.wait(SECONDS)
        child.stdout.close()


def test_unkillable_process_prevents_a_restart_whatever_the_fault():
    ending = Ending(-9, "killed", steps=10, saved=10, unkillable="process 7: state D")
    action = decide(ending, Ledger(), Conditions())
    assert isinstance(action, Requeue)
    assert "process 7: state D" in action.reason


FROM_OUTSIDE = """
import time
until = time.monotonic() + 30
while not os.path.exists('wanted') and time.monotonic() < until:
    time.sleep(0.01)
hold(int(open('wanted').read()), 'held')
"""
"""The tracer of a process that is not its child.

Whatever an isolated function starts itself ends with the call.
"""


def stay(folder: str) -> None:
    """Request a tracer that holds this process, and never return."""
    ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER: if Yama requires it
    wanted = Path(folder) / "wanted"
    wanted.with_suffix(".tmp").write_text(str(os.getpid()))
    wanted.with_suffix(".tmp").rename(wanted)
    time.sleep(SECONDS)


def test_unkillable_isolated_process_does_not_block_the_caller(work, let_go, monkeypatch):
    monkeypatch.setattr("oomph.process.isolation.isolate._GRACE_SECONDS", 0.2)
    monkeypatch.setattr("oomph.process.isolation.isolate._KILLED_SECONDS", 0.5)
    began = time.monotonic()
    outside = subprocess.Popen([sys.executable, "-c", HOLD + FROM_OUTSIDE], cwd=work.folder)
    outcome = isolate(stay, (str(work.folder),), timeout=3)
    outside.wait(SECONDS)
    assert time.monotonic() - began < 20
    assert outcome.timed_out
    (tracer,) = work.wait_for("held")
    assert outcome.reason == (
        "the function did not return within 3 s, and its process cannot be killed:"
        f" process {tracer} is tracing it, as a debugger does"
    )
    let_go()
    _, left = psutil.wait_procs(psutil.Process().children(), timeout=SECONDS)  # nobody else will
    assert not left
