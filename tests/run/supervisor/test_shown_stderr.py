"""A whole `oomph run`: nothing in the script's stderr is lost or gets stuck while reports are held back."""

from __future__ import annotations

import os
import select
import subprocess
import time

import pytest

from oomph.process.process_group import Terminal
from oomph.run.supervisor.attempt import Attempt
from oomph.run.supervisor.front import TerminalFront
from oomph.run.supervisor.native_reports import NativeReports
from oomph.run.supervisor.stop_requests import Signals

LIMIT = 60
GUARD = """
    import os, signal, subprocess, sys, threading, time
    from oomph.journal.events import Oom, Recovered
    from oomph.protocol.progress import Phase
    from oomph.script import session
    joined = session.current()
    beat, note = joined.pulse.beat, joined.journal.write
    NATIVE = b"W0000 00:00:1795237229.045565     889 "
    REPORT = NATIVE + b"bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory\\n"
    REPORT += b"".join(NATIVE + b"bfc_allocator.cc:1105] InUse at %d\\n" % i for i in range(1999))
    FATAL = b"F0000 00:00:1795237229.045565     889 device.cc:55] Check failed: RESOURCE_EXHAUSTED: OOM\\n"
    FIRST = not os.path.exists("tried")
    open("tried", "w").close()

    def say(data):
        while data:
            data = data[os.write(2, data):]

    def recover():
        say(REPORT)
        note(Oom(phase="compute"))
        beat(Phase.RECOVERING)
        time.sleep(0.3)
        note(Recovered(micro_batch=128))
        beat(Phase.STEP)
        time.sleep(0.5)

    beat(Phase.STEP)
    time.sleep(0.3)
"""


@pytest.fixture
def guarded(work):
    def run(text: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        lines = [*GUARD.splitlines(), *(f"    {line}" for line in text.splitlines())]
        work.script("\n".join(lines))
        return work.run(*options, "train.py")

    return run


def own(stderr: bytes) -> list[bytes]:
    return [line for line in stderr.splitlines(keepends=True) if not line.startswith(b"oomph: ")]


def test_recovered_step_report_becomes_one_line_naming_its_file(work, guarded):
    ours = guarded("recover(); say(b'its own\\n')")
    assert own(ours.stderr) == [b"its own\n"]
    named = f"TensorFlow's report of the failed allocation (2,000 lines) is in {work.run_dir.relative_to(work.folder)}"
    assert f"oomph: {named}/stderr/1-memory.log\n".encode() in ours.stderr
    assert len((work.run_dir / "stderr" / "1-memory.log").read_bytes().splitlines()) == 2000


def test_later_fatal_error_report_is_shown(guarded):
    ours = guarded("recover()\nif FIRST: say(REPORT + FATAL); os.abort()\nsay(b'the end\\n')")
    assert ours.returncode == 0
    assert len(own(ours.stderr)) == 2002, "the report, the line it died of, the end"
    assert own(ours.stderr)[2000].startswith(b"F0000")


def test_report_interrupted_by_a_kill_is_shown(guarded):
    ours = guarded("recover()\nif FIRST: say(REPORT); os.kill(os.getpid(), 9)\nsay(b'the end\\n')")
    assert ours.returncode == 0
    assert len(own(ours.stderr)) == 2001


def test_output_of_a_leftover_process_is_shown_before_a_restart(guarded):
    """The worker writes while the supervisor stops the group, after the supervisor has seen the script exit."""
    ours = guarded(
        "if FIRST:\n"
        "    ready, tell = os.pipe()\n"
        "    worker = 'import os, signal, sys, time; report, tell = sys.stdin.buffer.read(), int(sys.argv[1])\\n'\n"
        "    worker += 'def late(*_): os.write(2, report + b\"12\"); os._exit(0)\\n'\n"
        "    worker += 'signal.signal(signal.SIGTERM, late); os.write(tell, b\".\"); time.sleep(50)'\n"
        "    child = subprocess.Popen([sys.executable, '-c', worker, str(tell)], stdin=-1, pass_fds=[tell])\n"
        "    child.stdin.write(REPORT[:200]); child.stdin.close(); os.read(ready, 1)\n"
        "    child.terminate(); os.kill(os.getpid(), 9)\n"
    )
    assert ours.returncode == 0
    shown = b"".join(own(ours.stderr))
    assert b"ran out of memory" in shown
    assert b"12" in shown.rpartition(b"ran out of memory")[2]


def test_output_during_a_held_report_is_passed_on_in_order(work, guarded):
    ours = guarded(
        "say(REPORT); note(Oom(phase='compute')); beat(Phase.RECOVERING)\n"
        "began = time.monotonic()\n"
        "def shout(name):\n"
        "    for i in range(3000): say(b'%b %d\\n' % (name, i))\n"
        "threads = [threading.Thread(target=shout, args=(name,)) for name in (b'a', b'b', NATIVE + b'c.cc:1]')]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "note(Recovered()); beat(Phase.STEP)\n"
        "while time.monotonic() - began < 2: say(b'.')\n"
    )
    lines = b"".join(own(ours.stderr)).splitlines()
    for name in (b"a ", b"b ", b"W0000 00:00:1795237229.045565     889 c.cc:1] "):
        numbers = [int(line.removeprefix(name)) for line in lines if line.startswith(name)]
        assert numbers == list(range(3000)), name
    assert b"bfc_allocator" not in ours.stderr
    assert b"(2,000 lines)" in ours.stderr


def test_report_is_shown_even_if_the_script_prints_without_pauses_or_newlines(work):
    """No guard handles the report, and stderr always has something to read."""
    work.script(GUARD + "\n    beat(Phase.OWN_CODE); say(REPORT)\n    while True: say(b'\\r1234')")
    process = work.start("train.py")
    end, until = b"", time.monotonic() + LIMIT / 3
    while b"InUse at 1998" not in end:
        assert time.monotonic() < until, end[-200:]
        if select.select([process.stderr], [], [], 1)[0]:
            end = end[-200:] + os.read(process.stderr.fileno(), 65536)


def test_oomph_error_loses_neither_exit_code_nor_output(capfd, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(NativeReports, "end", fails)
    reports = NativeReports.__new__(NativeReports)
    monkeypatch.setattr(NativeReports, "take", lambda self, data: data)
    monkeypatch.setattr(NativeReports, "attend", lambda self, phase, quiet: b"")
    with Signals() as signals:
        terminal = Terminal()
        attempt = Attempt(
            ["sh", "-c", "echo words >&2; exit 7"], dict(os.environ), TerminalFront(terminal, reports=reports), signals
        )
        try:
            ended = attempt.wait()
        finally:
            attempt.close()
            terminal.close()
    assert (ended.returncode, ended.stderr) == (7, b"words\n")
    assert capfd.readouterr().err.startswith("words\n")
