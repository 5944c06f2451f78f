"""The supervisor's view of a script: whether its processes are busy, and where they hang."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomph.journal.journal import read_journal
from oomph.protocol.progress import Beat, Phase, Power
from oomph.run.hang import watch
from oomph.run.hang.limits import FLOOR_VARIABLE, Timings

SECONDS = 2.0
WAITS = "import threading; lock = threading.Lock(); lock.acquire(); print(flush=True); lock.acquire()"
LITTLE = "import time; print(flush=True)\nwhile True:\n    time.sleep(0.3)\n    sum(range(20_000))"
WAITS_WITH_A_CHILD_THAT_WORKS = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LITTLE!r}]); {WAITS}"
"""For example, a worker of the input pipeline."""
READS = (
    "import os, time; print(flush=True); file = os.open('/dev/zero', 0)\n"
    "while True:\n    os.read(file, 1); time.sleep(0.5)"
)


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", request.param], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        yield process.pid
        found = watch.activity_of(process.pid)
        for pid in found.pids if found else ():
            subprocess.run(["kill", "-9", str(pid)], timeout=10, check=False)


@pytest.mark.parametrize(
    ("started", "active"),
    [(WAITS, False), (LITTLE, True), (WAITS_WITH_A_CHILD_THAT_WORKS, True), (READS, True)],
    ids=["waits", "little", "child", "reads"],
    indirect=["started"],
)
def test_process_tree_is_idle_only_if_it_does_nothing_at_all(started: int, active: bool) -> None:
    before = watch.activity_of(started)
    time.sleep(SECONDS)
    after = watch.activity_of(started)
    assert before is not None
    assert after is not None
    assert watch.was_active(before, after) is active


def test_exited_process_has_no_sample() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    assert watch.activity_of(process.pid) is None


SCRIPT = """
import faulthandler, os, signal, time
from oomph.script import session
from oomph.protocol.progress import Phase

def waits_for_nothing():
    time.sleep(50)

faulthandler.unregister(signal.SIGRTMIN + 20)
signal.signal(signal.SIGRTMIN + 20, signal.SIG_DFL)
session.current().pulse.beat(Phase.STEP, 0)
if not os.path.exists("again"):
    open("again", "w").close()
    waits_for_nothing()
print("end")
"""
# What py-spy 0.4.3 prints for it.
STAND_IN = """#!/bin/sh
test "$1 $2 $3" = "dump --full-filenames --pid" || exit 2
echo "Process $4: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread $4 (idle): \\"MainThread\\"
    waits_for_nothing ($PWD/train.py:7)
    <module> ($PWD/train.py:14)"
"""


@pytest.mark.parametrize(
    "program",
    [
        "stand-in",
        pytest.param(
            "py-spy", marks=pytest.mark.skipif(shutil.which("py-spy") is None, reason="py-spy is not installed")
        ),
    ],
)
def test_hanging_line_is_identified_from_py_spy_output(work, program):
    work.script(SCRIPT)
    path = Path(work.folder / "bin" / "py-spy")
    path.parent.mkdir()
    if program == "stand-in":
        path.write_text(STAND_IN)
        path.chmod(0o755)
    environ = work.environ(PATH=f"{path.parent}{os.pathsep}{os.environ['PATH']}", **{FLOOR_VARIABLE: "3"})
    ended = work.run("--no-guard", "train.py", env=environ)
    assert (ended.returncode, ended.stdout) == (0, b"end\n"), ended.stderr.decode()
    (hang,) = (event.data for event in read_journal(work.run_dir) if event.name == "hang")
    assert hang["line"] == "train.py:7 in waits_for_nothing"
    assert hang["stacks"].startswith("Process ")


@pytest.mark.parametrize(("phase", "waits"), [(Phase.RECOVERING, True), (Phase.STEP, False)])
def test_worker_waits_for_one_that_looks_for_a_size_that_fits(phase, waits):
    """It may be silent meanwhile: the other is judged instead, as soon as it has reported nothing for the floor."""
    recovering, floor = watch.Watch(Timings(), 3.0), 3.0
    waiting = watch.Watch(Timings(), floor, is_waiting=lambda: recovering.is_recovering)
    silent_since, gone = time.monotonic() - floor / 2, time.monotonic() - 2 * floor
    for each, beaten in ((recovering, phase), (waiting, Phase.STEP)):
        os.write(each.beat_fd, Beat(beaten, Power(0), os.getpid(), 0, 0, 0).pack())
        each.hear()
    waiting._since = silent_since
    waiting.look(os.getpgrp())
    assert (waiting._since > silent_since) is waits
    recovering._heard = gone
    assert not recovering.is_recovering
    for each in (recovering, waiting):
        each.started()
        each.close()
